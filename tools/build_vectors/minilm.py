"""MiniLM's forward pass for a single word in numpy, for ``build_vectors`` only."""

from __future__ import annotations

import json
import struct

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_LAYERS, _HEADS, _HEAD_WIDTH = 6, 12, 32
_START, _END = 101, 102


class MiniLM:
    """all-MiniLM-L6-v2, from the bytes of its safetensors file."""

    def __init__(self, raw: bytes) -> None:
        (length,) = struct.unpack("<Q", raw[:8])
        header = json.loads(raw[8 : 8 + length])
        body = memoryview(raw)[8 + length :]
        self._tensors = {
            name: np.frombuffer(body[slice(*about["data_offsets"])], dtype="<f4").reshape(about["shape"])
            for name, about in header.items()
            if about.get("dtype") == "F32"
        }

    def word_vectors(self, numbers: list[int], batch: int = 512) -> Floats:
        """Return the sentence vector of each vocabulary entry standing alone."""
        parts: list[Floats] = []
        for at in range(0, len(numbers), batch):
            tokens = np.array([[_START, number, _END] for number in numbers[at : at + batch]])
            parts.append(self._forward(tokens).mean(axis=1))
        return np.concatenate(parts)

    def _forward(self, tokens: NDArray[np.int64]) -> Floats:
        table = self._tensors
        state = table["embeddings.word_embeddings.weight"][tokens]
        state = state + table["embeddings.position_embeddings.weight"][: tokens.shape[1]]
        state = self._normed(
            state + table["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
        )
        for layer in range(_LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        return state

    def _layer(self, state: Floats, name: str) -> Floats:
        attended = self._linear(
            self._attended(state, f"{name}attention.self."), f"{name}attention.output.dense"
        )
        state = self._normed(state + attended, f"{name}attention.output.LayerNorm")
        inner = _gelu(self._linear(state, f"{name}intermediate.dense"))
        return self._normed(state + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _attended(self, state: Floats, name: str) -> Floats:
        count, length, width = state.shape
        query, key, value = (
            self._linear(state, name + part).reshape(count, length, _HEADS, _HEAD_WIDTH).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        weights = np.exp(query @ key.transpose(0, 1, 3, 2) / np.float32(_HEAD_WIDTH**0.5))
        weights /= weights.sum(axis=-1, keepdims=True)
        return (weights @ value).transpose(0, 2, 1, 3).reshape(count, length, width)

    def _linear(self, state: Floats, name: str) -> Floats:
        return state @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _normed(self, state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return centred / spread * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]


def _gelu(values: Floats) -> Floats:
    return (
        np.float32(0.5)
        * values
        * (1 + np.tanh(np.float32(0.7978845608) * (values + np.float32(0.044715) * values * values * values)))
    )
