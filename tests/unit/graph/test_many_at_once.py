"""Many replies at once are shown less often, each whole and in order."""

from __future__ import annotations

import asyncio

import pytest

from personalab.operations.instances import new_instance
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, say

pytestmark = pytest.mark.anyio
_STORIES = 40
_PIECES = tuple(f"word{number} " for number in range(30))


async def test_replies_at_once_are_shown_whole_and_in_order(services: Services) -> None:
    reply = ScriptedReply(_PIECES, delay=0.004)
    services.models["rehearsal"] = ScriptedModel([reply], loop=True, rest_every=1)
    names = [f"story{number}" for number in range(_STORIES)]
    for name in names:
        await new_instance(services, "char_maren", "bg_lighthouse", name)
    played = await asyncio.gather(*(say(services, "Hello.", name) for name in names))
    for name, (events, result) in zip(names, played, strict=True):
        tokens = [event for event in events if event["type"] == "token"]
        shown = ""
        for token in tokens:
            assert token["offset"] == len(shown)
            shown += token["text"]
        assert shown == result["reply"] == lines(services, name)[-1]["content"] == "".join(_PIECES)
        assert 1 < len(tokens) <= len(_PIECES)
    assert sum(event["type"] == "token" for events, _ in played for event in events) < _STORIES * len(_PIECES)
