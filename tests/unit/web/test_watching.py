"""A log is heard whole by whoever watches it, however often they break off and come back."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from itertools import accumulate, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.dialogue import well_formed
from tests.support.web.listening import Heard, last_id, parsed, reasoning_of, text_of
from web.watching import Log, after, size_of

pytestmark = pytest.mark.anyio

ODD = [
    "\ud83d",
    "\ude00",
    "😀",
    "👩‍👩‍👧",
    "灯塔",
    "é",
    "\r\n",
    "\r",
    "\n\n",
    "\u2028",
    "\x00",
    "data: x\n\n",
    ":",
    "",
]
TEXTS = st.one_of(st.sampled_from(ODD), st.text(max_size=6))
"""What a model may send as one token, and some of what only a broken one sends."""


async def _part(log: Log, offset: int | None, events: int) -> list[Heard]:
    """Watch until at least so many events have come, then break off."""
    heard: list[Heard] = []
    async with aclosing(log.watch(offset)) as stream:
        while len(heard) < events:
            heard += parsed((await anext(stream)).decode("ascii"))
    return heard[:events]


@given(
    tokens=st.lists(TEXTS, min_size=1, max_size=12),
    steps=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), min_size=1),
)
async def test_no_gap_and_no_repeat_over_any_number_of_returns(
    tokens: list[str], steps: list[tuple[int, int]]
) -> None:
    """In each step the model says so many tokens, and a client comes back for at most so many."""
    log, told, heard = Log(), 0, list[Heard]()
    for more, wanted in cycle(steps):
        for token in tokens[told : told + more]:
            log.token(1, token)
        told += more
        if told >= len(tokens):
            break
        last = last_id(heard)
        # An empty token leads nowhere: who comes back may hear it or not, and misses nothing.
        ends = list(accumulate(map(size_of, tokens[:told])))
        left = [text for text, end in zip(tokens, ends, strict=False) if text and end > int(last or 0)]
        heard += await _part(log, None if last is None else int(last), min(wanted, len(left)))
    log.tell("done", {})
    log.end()
    last = last_id(heard)
    async with aclosing(log.watch(None if last is None else int(last))) as stream:
        heard += parsed("".join([part.decode("ascii") async for part in stream]))
    assert text_of(heard) == "".join(tokens)
    assert heard[-1].name == "done"


EVENTS = st.lists(st.tuples(st.sampled_from(["token", "reasoning", "restart"]), TEXTS), max_size=12)


def _told(log: Log, events: list[tuple[str, str]]) -> None:
    """Log the events as models give them: no token holds half a character."""
    for name, text in events:
        if name == "token":
            log.token(1, well_formed(text))
        else:
            log.add_reasoning(1, well_formed(text), restart=name == "restart")


async def _heard(log: Log, offset: int | None) -> list[Heard]:
    async with aclosing(log.watch(offset)) as stream:
        return parsed(b"".join([part async for part in stream]).decode("ascii"))


@given(events=EVENTS, cuts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=4))
async def test_reasoning_is_whole_after_any_number_of_returns(
    events: list[tuple[str, str]], cuts: list[tuple[int, int]]
) -> None:
    """In each step so many events happen, and a client takes some of those that wait for it."""
    log, heard, left = Log(), list[Heard](), list(events)
    for more, wanted in cuts:
        _told(log, left[:more])
        del left[:more]
        last = last_id(heard)
        waiting = len(await _heard_so_far(log, None if last is None else int(last)))
        heard += await _part(log, None if last is None else int(last), min(wanted, waiting))
    _told(log, left)
    log.tell("done", {})
    log.end()
    last = last_id(heard)
    heard += await _heard(log, None if last is None else int(last))
    assert (text_of(heard), reasoning_of(heard)) == (log.text, log.reasoning)
    for one in (log, log.merged()):
        whole = await _heard(one, None)
        assert (text_of(whole), reasoning_of(whole)) == (log.text, log.reasoning)
    kept = await _heard(log.merged(), None if last is None else int(last))
    assert reasoning_of([*heard, *kept]) == log.reasoning
    assert sum(event.name == "reasoning" for event in kept) <= 1


async def _heard_so_far(log: Log, offset: int | None) -> list[Heard]:
    """Hear what a watcher is sent at once; the log goes on."""
    log.ended = True
    heard = await _heard(log, offset)
    log.ended = False
    return heard


@given(tokens=st.lists(TEXTS, max_size=8), read=st.integers(0, 48), told=st.integers(0, 8))
async def test_who_has_read_the_file_is_told_only_the_rest(tokens: list[str], read: int, told: int) -> None:
    """The file may be ahead of what was told: what a client knows from it does not come again."""
    whole = "".join(tokens)
    known = whole[:read]
    log = Log()
    for token in tokens[:told]:
        log.token(1, token)
    async with aclosing(log.watch(size_of(known))) as stream:
        first: list[bytes] = []
        if size_of("".join(tokens[:told])) > size_of(known):
            first.append(await anext(stream))
        for token in tokens[told:]:
            log.token(1, token)
        log.tell("done", {})
        log.end()
        heard = parsed(b"".join([*first, *[part async for part in stream]]).decode("ascii"))
    assert known + text_of(heard) == whole
    at = size_of(known)
    for event in heard[:-1]:
        if event.data["text"]:
            assert event.data["offset"] == at
            at += size_of(event.data["text"])
            assert event.event_id == str(at)
    assert heard[-1].name == "done"


@given(tokens=st.lists(TEXTS, max_size=8), offset=st.one_of(st.none(), st.integers(0, 48)))
async def test_what_is_kept_of_a_log_tells_the_rest_as_the_log_did(
    tokens: list[str], offset: int | None
) -> None:
    """One that ended is kept with its reply in one piece; who comes back goes on where they were."""
    log = Log()
    log.tell("warning", {"n": 1}, again=True)
    for token in tokens:
        log.token(1, well_formed(token))
    log.tell("error", {"n": 2})
    log.tell("warning", {"n": 3}, again=True)
    log.tell("done", {"n": 4})
    log.end()
    heard: list[list[Heard]] = []
    for one in (log, log.merged()):
        async with aclosing(one.watch(offset)) as stream:
            heard.append(parsed(b"".join([part async for part in stream]).decode("ascii")))
    whole, kept = heard
    assert text_of(kept) == text_of(whole)
    said = [[event for event in events if event.data.get("text")] for events in (whole, kept)]
    assert last_id(said[0]) == last_id(said[1])
    assert [event for event in kept if event.name != "token"] == [
        event for event in whole if event.name != "token"
    ]
    assert sum(event.name == "token" for event in kept) <= 1


async def test_a_client_that_claims_to_know_more_costs_no_more_than_others() -> None:
    """Every token is looked at a few times, not once for each that came before it."""
    log, looks = Log(), 0

    class Token(str):
        __slots__ = ()

        def isascii(self) -> bool:
            nonlocal looks
            looks += 1
            return super().isascii()

    async with aclosing(log.watch(10**15)) as stream:
        ended = asyncio.ensure_future(anext(stream, None))
        for _ in range(200):
            log.token(1, Token("word "))
            await asyncio.sleep(0)
        log.end()
        assert await ended is None
    assert looks < 200 * 5


async def test_warnings_are_told_again_and_other_news_is_not() -> None:
    log = Log()
    log.tell("warning", {"n": 1}, again=True)
    log.token(1, "a")
    log.tell("care", {"n": 2})
    log.token(1, "b")
    log.end()
    async with aclosing(log.watch(2)) as stream:
        heard = parsed(b"".join([part async for part in stream]).decode())
    assert [event.name for event in heard] == ["warning"]
    async with aclosing(log.watch(1)) as stream:
        heard = parsed(b"".join([part async for part in stream]).decode())
    assert [event.name for event in heard] == ["warning", "care", "token"]


async def test_an_offset_inside_a_character_begins_with_that_character() -> None:
    assert after("a灯b", 2) == "灯b"
    assert after("a灯b", 4) == "b"
    assert after("a灯b", 99) == ""


async def test_the_last_to_leave_is_noticed_once_and_not_after_the_end() -> None:
    left: list[str] = []
    log = Log(lambda: left.append("left"))
    log.token(1, "a")
    async with aclosing(log.watch(None)) as one, aclosing(log.watch(None)) as other:
        await anext(one)
        await anext(other)
        await one.aclose()
        assert not left
    assert left == ["left"]
    async with aclosing(log.watch(None)) as one:
        await anext(one)
        log.end()
    assert left == ["left"]
