"""An adapter that passes precomputed vectors to LangChain's Chroma, so that embedding needs no lock."""

from __future__ import annotations

from typing import cast

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from personalab.errors import Invalid


class PreparedEmbeddings(Embeddings):
    """Gives each text the vector that was made for it."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Hand out the vectors, in the texts' order."""
        if len(texts) != len(self._vectors):
            raise Invalid("vector_count", count=len(self._vectors), texts=len(texts))
        # Chroma takes rows of numbers as they are; as lists they would be copied twice.
        return cast("list[list[float]]", list(self._vectors))

    def embed_query(self, text: str) -> list[float]:
        """Refuse: queries bring their own vector."""
        raise NotImplementedError("a query brings its own vector")
