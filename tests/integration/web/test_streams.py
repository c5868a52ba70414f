"""A turn belongs to the server: it is begun, watched, left, come back to, stopped and tried again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.services import Services
from personalab.story.transcript import UserLine, dump_line
from tests.conftest import NOW
from tests.support.web.fixtures import Live, live_app
from tests.support.web.listening import Heard, last_id, listen, listening, take, text_of
from tests.support.web.slow_model import HandedModel
from tests.unit.web.test_watching import ODD
from web.app import Limits

pytestmark = pytest.mark.anyio


async def begin(client: httpx.AsyncClient, text: str = "hello", **more: str) -> dict[str, Any]:
    """Say something; give what the server answers."""
    answer = await client.post("/api/instances/inst_001/turns", json={"text": text, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def retry(client: httpx.AsyncClient) -> dict[str, Any]:
    """Try the last turn again."""
    answer = await client.post("/api/instances/inst_001/retry")
    assert answer.status_code == 202, answer.text
    return answer.json()


def session(root: Path, session_id: str = "sess_001") -> Path:
    """Find a session's file."""
    return root / "instances" / "inst_001" / "sessions" / f"{session_id}.jsonl"


def lines(root: Path) -> list[dict[str, Any]]:
    """Read what was said, as any program would."""
    return [json.loads(line) for line in session(root).read_bytes().splitlines()][1:]


# --- watching


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    pieces=st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=4)), max_size=6),
    returns=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12), st.booleans()), max_size=4),
)
async def test_whatever_breaks_off_the_client_has_what_the_file_has(
    live: Live, instance: str, handed: HandedModel, pieces: list[str], returns: list[tuple[int, int, bool]]
) -> None:
    """The model says some pieces; a client comes back for some bytes, by its last id or by what the file held.

    What may be the beginning of a line for the player is held back, so a client waits only for what is there.
    """
    asked = len(handed.replies) + 1
    turn = await begin(live.client)
    await handed.asked(asked)
    left, text, last = ["a", *pieces], "", 0
    for more, wanted, reads in returns:
        handed.say(*left[:more])
        del left[:more]
        found = await _current(live.client, turn)
        if reads:
            text, last = found["content"], found["offset"]
        heard = await _some(live.client, turn["stream"], last, min(last + wanted, found["offset"]))
        text, last = text + text_of(heard), int(last_id(heard) or last)
    handed.finish(*left)
    text += text_of(await listen(live.client, turn["stream"], str(last)))
    found = await _current(live.client, turn)
    assert text == found["content"] == lines(live.desk.services.settings.data_root)[-1]["content"]
    # Who was never there, and who comes when the server has forgotten, hear the same.
    assert text_of(await listen(live.client, turn["stream"])) == text
    forget(live)
    assert text_of(await listen(live.client, turn["stream"])) == text


def forget(live: Live) -> None:
    """Let the server forget the turns that ended, as it does after many others: it has only their files then."""
    live.desk.turns._answered.clear()  # pyright: ignore[reportPrivateUsage]


async def _some(client: httpx.AsyncClient, url: str, last: int, wanted: int) -> list[Heard]:
    """Listen until so many bytes of the reply are known, then break off."""
    heard: list[Heard] = []
    async with listening(client, url, str(last)) as events:
        while int(last_id(heard) or last) < wanted:
            heard.append(await anext(events))
    return heard


async def _current(client: httpx.AsyncClient, turn: dict[str, Any]) -> dict[str, Any]:
    where = f"/api/sessions/{turn['session_id']}/current_response"
    asked = {name: turn[name] for name in ("instance_id", "turn", "attempt")}
    answer = await client.get(where, params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_all_who_watch_hear_the_same_however_late_they_come(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    async with listening(live.client, turn["stream"]) as early:
        handed.say("one ")
        first = await take(early, 1)
        async with listening(live.client, turn["stream"]) as late:
            handed.say("two ")
            seconds = [await take(late, 2), await take(early, 1)]
            last = asyncio.create_task(listen(live.client, f"{turn['stream']}&offset=4"))
            handed.finish("three")
            ends = [[event async for event in stream] for stream in (late, early)]
    whole = "one two three"
    assert text_of([*seconds[0], *ends[0]]) == whole
    assert text_of([*first, *seconds[1], *ends[1]]) == whole
    assert text_of(await last) == "two three"
    for end in (*ends, await last):
        assert end[-1].name == "done"
        assert end[-1].data["content"] == whole
    assert (await _current(live.client, turn))["status"] == "done"


async def test_the_file_is_there_to_read_while_a_reply_is_written(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    assert (turn["turn"], turn["attempt"], turn["session_id"]) == (1, 1, "sess_001")
    await handed.asked()
    handed.say("灯")
    async with listening(live.client, turn["stream"]) as events:
        [token] = await take(events, 1)
        assert (token.event_id, token.data["offset"]) == ("3", 0)
        found = await _current(live.client, turn)
        assert (found["status"], found["content"], found["offset"]) == ("writing", "灯", 3)
        assert not found["interrupted"]
        handed.finish()
        rest = [event async for event in events]
    assert [event.name for event in rest] == ["done"]


# --- stopping, trying again


async def test_stop_ends_the_reply_for_everyone_and_retry_is_another_attempt(
    live: Live, instance: str, handed: HandedModel, root: Path
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.say("half of ")
    async with listening(live.client, turn["stream"]) as one, listening(live.client, turn["stream"]) as other:
        await take(one, 1)
        stopped = await live.client.post("/api/instances/inst_001/stop")
        assert (stopped.status_code, stopped.json()["stopped"]) == (200, "say")
        ends = [[event async for event in stream][-1] for stream in (one, other)]
    assert all(end.name == "done" and end.data["interrupted"] for end in ends)
    assert (lines(root)[-1]["content"], lines(root)[-1]["interrupted"]) == ("half of ", True)

    again = await retry(live.client)
    assert (again["turn"], again["attempt"]) == (1, 2)
    await handed.asked(2)
    handed.finish("whole")
    assert text_of(await listen(live.client, again["stream"])) == "whole"
    assert text_of(await listen(live.client, turn["stream"])) == "half of "
    newest = turn["stream"].replace("&attempt=1", "")
    assert text_of(await listen(live.client, newest)) == "whole"
    assert (await _current(live.client, turn))["status"] == "interrupted"
    missing = await live.client.get(again["stream"].replace("attempt=2", "attempt=4"))
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "no_attempt")
    nothing = await live.client.post("/api/instances/inst_001/stop")
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "nothing_running")
    settled = await live.client.post("/api/instances/inst_001/retry")
    assert (settled.status_code, settled.json()["error"]["code"]) == (400, "nothing_to_retry")


async def test_a_model_that_fails_is_told_and_can_be_tried_again(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.say("well")
    handed.fail()
    heard = await listen(live.client, turn["stream"])
    error = next(event for event in heard if event.name == "error")
    assert (error.data["kind"], error.data["retryable"]) == ("provider", True)
    forget(live)
    later = await listen(live.client, turn["stream"])
    assert text_of(later) == text_of(heard) == heard[-1].data["content"] == later[-1].data["content"]
    assert text_of(heard).startswith("well\n(")
    assert later[-1].data["error"]
    again = await retry(live.client)
    await handed.asked(2)
    handed.finish("better")
    assert text_of(await listen(live.client, again["stream"])) == "better"


# --- asking twice, asking in vain


async def test_the_same_request_again_is_the_same_turn(
    live: Live, instance: str, handed: HandedModel
) -> None:
    posts = [begin(live.client, "hello", request_id="r1") for _ in range(3)]
    first, *others = await asyncio.gather(*posts)
    assert all(other == first for other in others)
    await handed.asked()
    other_words = await live.client.post(
        "/api/instances/inst_001/turns", json={"text": "other", "request_id": "r1"}
    )
    assert (other_words.status_code, other_words.json()["error"]["code"]) == (400, "request_id_reused")
    other_call = await live.client.post("/api/instances/inst_001/turns", json={"text": "hello"})
    assert (other_call.status_code, other_call.json()["error"]["code"]) == (409, "turn_running")
    handed.finish("yes")
    await listen(live.client, first["stream"])
    assert await begin(live.client, "hello", request_id="r1") == first
    assert text_of(await listen(live.client, first["stream"])) == "yes"
    assert len(handed.replies) == 1
    assert len(lines(live.desk.services.settings.data_root)) == 2


async def test_what_is_refused_leaves_nothing(
    hurried: Services, instance: str, handed: HandedModel, root: Path
) -> None:
    other_story(hurried)
    before = session(root).read_bytes()
    async with live_app(hurried, limits=Limits(max_turns=1)) as live:
        where = "/api/instances/inst_001/turns"
        refused: list[tuple[dict[str, Any], int, str]] = [
            ({"text": "   "}, 400, "blank_input"),
            ({"text": ""}, 422, "bad_request"),
            ({"text": 7}, 422, "bad_request"),
            ({"text": "a", "more": 1}, 422, "bad_request"),
            ({"text": "a", "request_id": ""}, 422, "bad_request"),
            ({}, 422, "bad_request"),
        ]
        for body, status, code in refused:
            answer = await live.client.post(where, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), body
        nobody = await live.client.post("/api/instances/nobody/turns", json={"text": "hi"})
        assert (nobody.status_code, nobody.json()["error"]["code"]) == (404, "no_instance")
        elsewhere = await live.client.post("/api/instances/inst_002/turns", json={"text": "hi"})
        await handed.asked()
        full = await live.client.post(where, json={"text": "hi"})
        assert (full.status_code, full.json()["error"]["code"]) == (429, "too_many_turns")
        assert int(full.headers["retry-after"]) >= 1
        assert session(root).read_bytes() == before
        handed.finish("fine")
        await listen(live.client, elsewhere.json()["stream"])
        assert (await begin(live.client))["turn"] == 1


async def test_unknown_turns_are_not_found(live: Live, instance: str) -> None:
    for query, code in (
        ("instance_id=inst_001&turn=7", "no_turn"),
        ("instance_id=inst_001&turn=1&session_id=sess_999", "no_session"),
        ("instance_id=inst_009&turn=1", "no_instance"),
    ):
        answer = await live.client.get(f"/api/chat/stream?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)


# --- leaving


async def test_a_reply_goes_on_when_its_last_watcher_leaves(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.say("a")
    async with listening(live.client, turn["stream"]) as events:
        await take(events, 1)
    await _until(lambda: live.desk.seats.taken == 0)
    handed.finish("b")
    heard = await listen(live.client, turn["stream"])
    assert text_of(heard) == "ab"
    assert not heard[-1].data["interrupted"]


async def test_a_reply_ends_when_its_last_watcher_leaves_if_a_person_wants_that(
    live: Live, instance: str, handed: HandedModel, services: Services
) -> None:
    services.preferences.change({"preferences.on_disconnect": "interrupt"})
    turn = await begin(live.client)
    await handed.asked()
    handed.say("a")
    async with listening(live.client, turn["stream"]) as stays:
        await take(stays, 1)
        async with listening(live.client, turn["stream"]) as leaves:
            await take(leaves, 1)
        handed.say("b")
        assert text_of(await take(stays, 1)) == "b"
    await _until(lambda: live.desk.turns.count == 0)  # who came back sooner would be a watcher again
    heard = await listen(live.client, turn["stream"])
    assert text_of(heard) == "ab"
    assert heard[-1].data["interrupted"]


async def test_who_leaves_before_the_answer_has_said_it_all_the_same(
    services: Services, instance: str, handed: HandedModel, root: Path
) -> None:
    other_story(services)
    async with live_app(services, limits=Limits(max_turns=1)) as live:
        await live.client.post("/api/instances/inst_002/turns", json={"text": "first"})
        await handed.asked()
        asking = asyncio.create_task(begin(live.client, "I am off"))
        await _until(lambda: live.desk.turns.count == 2)
        asking.cancel()
        await asyncio.wait([asking])
        handed.finish("done")
        await handed.asked(2)
        handed.finish("bye")
        await _until(lambda: live.desk.turns.count == 0)
    assert [line["content"] for line in lines(root)] == ["I am off", "bye"]


def other_story(services: Services) -> None:
    """Make a second story, ``inst_002``."""
    stories = services.stories
    stories.create_instance(
        stories.character("char_alserqi"), stories.background("bg_wasteland"), "inst_002", NOW
    )


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


# --- what stands in files


async def test_a_turn_without_a_reply_says_so_and_can_be_answered(
    live: Live, instance: str, handed: HandedModel, root: Path
) -> None:
    with session(root).open("ab") as file:
        file.write(dump_line(UserLine("are you there?", 1, NOW)))
    url = "/api/chat/stream?instance_id=inst_001&turn=1"
    [error] = await listen(live.client, url)
    assert (error.name, error.data["code"], error.data["retryable"]) == ("error", "turn_unanswered", True)
    turn = await retry(live.client)
    assert (turn["turn"], turn["attempt"]) == (1, 1)
    await handed.asked()
    handed.finish("yes")
    assert text_of(await listen(live.client, url)) == "yes"


async def test_a_turn_of_a_session_that_was_summed_up_is_still_told(
    live: Live, instance: str, handed: HandedModel, services: Services
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.finish("long ago")
    await listen(live.client, turn["stream"])
    stories = services.stories
    made = stories.session(instance, "sess_001").path.with_name("sess_002.jsonl")
    made.write_bytes(session(services.settings.data_root).read_bytes().splitlines(keepends=True)[0])
    state = made.parents[1] / "instance_state.json"
    fields = json.loads(state.read_text(encoding="utf-8"))
    state.write_text(json.dumps({**fields, "current_session_id": "sess_002"}), encoding="utf-8")
    forget(live)
    assert text_of(await listen(live.client, turn["stream"])) == "long ago"
    gone = await live.client.get("/api/chat/stream?instance_id=inst_001&turn=1")
    assert gone.status_code == 404


async def test_what_is_done_after_a_reply_does_not_keep_the_story(
    live: Live, instance: str, handed: HandedModel, services: Services
) -> None:
    """With memory switched on, learning from a turn goes on while the next one is played."""
    services.preferences.change({"preferences.auto_memorize_turns": 1})
    turn = await begin(live.client, "I am Ada, and I live by the sea")
    await handed.asked()
    async with listening(live.client, turn["stream"]) as events:
        handed.finish("hello Ada")
        await take(events, 1, "done")
        await handed.asked(2)  # it is being learned from
        follow = await begin(live.client, "how are you?")
        assert follow["turn"] == 2
    await live.client.post("/api/instances/inst_001/stop")
