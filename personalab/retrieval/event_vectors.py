"""Vectors of events, mixed with a share of the preceding turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from personalab.ports import Embedder
from personalab.story.recall import StoryEvent

PREVIOUS = 0.5
"""How much of the previous turn's vector is stored with a turn's own."""

Texts = Callable[[Sequence[str]], Mapping[str, str]]
"""Looks up the texts of events that were written earlier."""


def vectors_of(events: Sequence[StoryEvent], embedder: Embedder, earlier: Texts) -> NDArray[np.float32]:
    """Embed events; a turn takes a share of the one before it, so that an answer is found by its question."""
    texts = {event.event_id: event.text for event in events}
    before = [_previous(event) for event in events]
    unknown = [event_id for event_id in before if event_id and event_id not in texts]
    known: Mapping[str, str] = earlier(unknown) if unknown else {}
    rows = [*texts.values(), *known.values()]
    vectors = np.array(embedder.embed_documents(rows), dtype=np.float32)
    places = {event_id: at for at, event_id in enumerate([*texts, *known])}
    own = vectors[: len(events)].copy()
    for at, event_id in enumerate(before):
        if event_id in places:
            own[at] += PREVIOUS * vectors[places[event_id]]
    return own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)


def _previous(event: StoryEvent) -> str:
    """Return the id of the turn before a turn; a summary has none."""
    if event.kind != "turn" or event.index < 2:
        return ""
    return f"{event.event_id.removesuffix(str(event.index))}{event.index - 1}"
