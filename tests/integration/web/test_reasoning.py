"""What a model thinks is streamed and stored apart from its reply; a second try takes the place of the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.dialogue import well_formed
from personalab.services import Services, open_services
from personalab.story.transcript import NO_REPLY
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.conftest import NOW
from tests.integration.web.test_sessions import append, got, written
from tests.integration.web.test_streams import begin, forget, lines, retry
from tests.integration.web.test_told_from_files import STREAM, write_elsewhere
from tests.support.web.fixtures import Live, live_app
from tests.support.web.listening import Heard, last_id, listen, listening, reasoning_of, take, text_of
from tests.support.web.slow_model import HandedModel
from tests.unit.web.test_watching import ODD

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]

TURNS = "/api/instances/inst_001/sessions/sess_001/turns"
PIECES = st.lists(
    st.tuples(
        st.booleans(),
        st.one_of(st.sampled_from(ODD), st.text(st.characters(exclude_characters="<"), max_size=4)),
    ),
    max_size=8,
)
"""What a model thinks (True) and says, in any order; without what may be a tag, which waits for its end."""


def hand(model: HandedModel, pieces: list[tuple[bool, str]]) -> None:
    """Let the newest reply think and say some pieces."""
    for is_thought, text in pieces:
        (model.think if is_thought else model.say)(text)


async def current(client: httpx.AsyncClient, turn: dict[str, Any]) -> dict[str, Any]:
    asked = {name: turn[name] for name in ("instance_id", "turn", "attempt")}
    return await got(client, f"/api/sessions/{turn['session_id']}/current_response", **asked)


# --- watching


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(pieces=PIECES, stops=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4))
async def test_client_has_what_the_file_has_wherever_its_connection_breaks(
    live: Live,
    instance: str,
    handed: HandedModel,
    pieces: list[tuple[bool, str]],
    stops: list[tuple[int, int]],
) -> None:
    """The model thinks and speaks; a client takes some events, breaks off and comes back with its last id."""
    asked = len(handed.replies) + 1
    turn = await begin(live.client)
    await handed.asked(asked)
    left, heard, sent = [(True, "hm"), (False, "a"), *pieces], list[Heard](), ["", ""]
    for more, wanted in stops:
        hand(handed, left[:more])
        for is_thought, text in left[:more]:
            sent[is_thought] += well_formed(text)
        del left[:more]
        stop = len(heard) + wanted
        async with listening(live.client, turn["stream"], last_id(heard)) as events:
            while len(heard) < stop and [text_of(heard), reasoning_of(heard)] != sent:
                heard.append(await anext(events))
    hand(handed, left)
    handed.finish()
    heard += await listen(live.client, turn["stream"], last_id(heard))
    line = lines(live.desk.services.settings.data_root)[-1]
    assert heard[-1].data["content"] == line["content"]
    assert (text_of(heard), reasoning_of(heard)) == (line["content"], line["reasoning"])
    found = await current(live.client, turn)
    assert (found["content"], found["reasoning"]) == (line["content"], line["reasoning"])
    for _ in ("from memory", "from the file"):
        whole = await listen(live.client, turn["stream"])
        assert (text_of(whole), reasoning_of(whole)) == (line["content"], line["reasoning"])
        assert [event.name for event in whole if event.name != "warning"] == ["reasoning", "token", "done"]
        forget(live)


async def test_reasoning_comes_before_the_reply_and_again_to_who_comes_back(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.think("灯", "塔")
    async with listening(live.client, turn["stream"]) as early:
        await take(early, 1, "reasoning")
        found = await current(live.client, turn)
        assert (found["status"], found["content"], found["offset"]) == ("writing", "", 0)
        assert "灯塔".startswith(found["reasoning"])
        async with listening(live.client, turn["stream"]) as thinking:
            assert (await take(thinking, 1, "reasoning"))[0].data["offset"] == 0
        handed.say("我在")
        [token] = [event for event in await take(early, 1) if event.name == "token"]
        assert (token.event_id, token.data["offset"]) == ("6", 0)
        async with listening(live.client, turn["stream"], token.event_id) as back:
            [again] = await take(back, 1, "reasoning")
            assert (again.data, again.event_id) == ({"turn": 1, "text": "灯塔", "offset": 0}, None)
            handed.think("！")
            [more] = await take(back, 1, "reasoning")
            assert more.data == {"turn": 1, "text": "！", "offset": 6}
            handed.finish("。")
            rest = [event async for event in back]
        assert text_of(rest) == "。"
    assert lines(live.desk.services.settings.data_root)[-1]["reasoning"] == "灯塔！"


async def test_ended_reply_takes_no_memory_for_each_thought(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.think(*(f"thought {number} " for number in range(500)))
    handed.finish("yes")
    heard = await listen(live.client, turn["stream"])
    [run] = live.desk.turns._answered.values()  # pyright: ignore[reportPrivateUsage]
    await run.task
    again = await listen(live.client, turn["stream"])
    assert reasoning_of(again) == reasoning_of(heard) == "".join(f"thought {n} " for n in range(500))
    assert len([event for event in again if event.name == "reasoning"]) == 1


async def test_thoughts_without_opening_tag_leave_the_reply_at_its_end(
    live: Live, instance: str, handed: HandedModel, root: Path
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.say("They ask me", ".</th", "ink>\n\nI ", "am")
    heard: list[Heard] = []
    async with listening(live.client, turn["stream"]) as events:
        while not text_of(heard).endswith("am"):
            heard += await take(events, 1)
        handed.finish(" here.")
        heard += [event async for event in events]
    assert text_of(heard).split("</think>\n\n")[-1] == "I am here.", "what was told before is a thought"
    assert (heard[-1].data["content"], reasoning_of(heard)) == ("I am here.", "They ask me.")
    line = lines(root)[-1]
    assert (line["content"], line["reasoning"]) == ("I am here.", "They ask me.")
    later = await listen(live.client, turn["stream"])
    assert (text_of(later), reasoning_of(later)) == ("I am here.", "They ask me.")


async def test_reasoning_of_another_program_is_told_from_its_file(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    elsewhere.think("让我")
    async with listening(live.client, STREAM) as events:
        heard = await take(events, 1, "reasoning")
        elsewhere.think("想想")
        heard += await take(events, 1, "reasoning")
        elsewhere.say("我在")
        heard += await take(events, 1)
        elsewhere.think("。")
        heard += await take(events, 1, "reasoning")
        async with listening(live.client, STREAM, last_id(heard)) as back:
            assert reasoning_of(await take(back, 2, "reasoning")) == "让我想想。"
        elsewhere.end()
        heard += [event async for event in events]
    assert (reasoning_of(heard), text_of(heard)) == ("让我想想。", "我在")
    assert heard[-1].data["content"] == "我在"


async def test_thoughts_that_leave_the_text_of_another_program_are_told_once(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    async with listening(live.client, STREAM) as events:
        elsewhere.say("They ask me.")
        heard = await take(events, 1)
        elsewhere.say("</think>I am here.")
        heard += await take(events, 1, "reasoning")
        assert reasoning_of(heard) == "They ask me."
        elsewhere.text = "I am here."
        elsewhere.end()
        heard += [event async for event in events]
    assert text_of(heard) == "They ask me."
    assert heard[-1].data["content"] == "I am here."


# --- the second try


async def test_second_try_takes_the_place_of_a_wordless_first_one(
    live: Live, instance: str, handed: HandedModel, services: Services, root: Path
) -> None:
    turn = await begin(live.client)
    assert turn["attempt"] == 1
    await handed.asked()
    handed.think("first")
    async with listening(live.client, turn["stream"]) as events:
        heard = await take(events, 1, "reasoning")
        handed.finish("[PROGRESS:1:completed]")
        await handed.asked(2)
        heard += await take(events, 1, "reasoning")
        assert reasoning_of(heard) == "", "what the first try thought is void"
        assert (await current(live.client, turn))["content"] == ""
        handed.think("second")
        heard += await take(events, 1, "reasoning")
        state = await got(live.client, "/api/instances/inst_001")
        assert (state["running"]["turn"], state["running"]["attempt"]) == (1, 2)
        for attempt in (1, 2):
            url = turn["stream"].replace("attempt=1", f"attempt={attempt}")
            assert reasoning_of(await some_thoughts(live, url)) == "second"
        handed.finish("I am here.")
        heard += [event async for event in events]
    assert (text_of(heard), reasoning_of(heard)) == ("I am here.", "second")
    assert (heard[-1].data["attempt"], heard[-1].data["content"]) == (2, "I am here.")
    assert [line["content"] for line in lines(root)] == ["hello", NO_REPLY, "I am here."]

    async def same(client: httpx.AsyncClient) -> None:
        for query in ("attempt=1", "attempt=2", "turn=1"):
            told = await listen(client, turn["stream"].replace("attempt=1", query))
            assert (text_of(told), reasoning_of(told)) == ("I am here.", "second")
            assert (told[-1].data["attempt"], told[-1].data["empty"]) == (2, False)
        found = await current(client, turn)
        assert (found["attempt"], found["content"], found["reasoning"]) == (2, "I am here.", "second")

    await same(live.client)
    forget(live)
    await same(live.client)
    async with live_app(open_services(services.settings)) as restarted:
        await same(restarted.client)


async def some_thoughts(live: Live, url: str) -> list[Heard]:
    """Listen until something is thought that is not void."""
    heard: list[Heard] = []
    async with listening(live.client, url) as events:
        while not reasoning_of(heard).startswith("second"):
            heard += await take(events, 1, "reasoning")
    return heard


async def test_second_try_of_another_program_is_followed(
    live: Live, instance: str, services: Services
) -> None:
    elsewhere = await write_elsewhere(services)
    elsewhere.think("first")
    async with listening(live.client, f"{STREAM}&attempt=1") as events:
        heard = await take(events, 1, "reasoning")
        elsewhere.close(empty=True)
        assert (await got(live.client, "/api/instances/inst_001"))["running"]["attempt"] == 2
        elsewhere.again()
        elsewhere.think("second")
        while reasoning_of(heard) != "second":
            heard += await take(events, 1, "reasoning")
        elsewhere.say("I am here.")
        heard += await take(events, 1)
        elsewhere.end()
        heard += [event async for event in events]
    assert (text_of(heard), heard[-1].data["content"]) == ("I am here.", "I am here.")


async def test_try_that_was_stopped_is_not_replaced_by_a_later_one(
    live: Live, instance: str, handed: HandedModel
) -> None:
    turn = await begin(live.client)
    await handed.asked()
    handed.think("half a thought")
    async with listening(live.client, turn["stream"]) as events:
        await take(events, 1, "reasoning")
        await live.client.post("/api/instances/inst_001/stop")
        *_, done = [event async for event in events]
    assert (done.data["interrupted"], done.data["empty"], done.data["attempt"]) == (True, True, 1)
    again = await retry(live.client)
    await handed.asked(2)
    handed.finish("whole")
    assert text_of(await listen(live.client, again["stream"])) == "whole"
    first = await listen(live.client, turn["stream"])
    assert (text_of(first), reasoning_of(first), first[-1].data["interrupted"]) == (
        "",
        "half a thought",
        True,
    )


# --- reading


async def test_reply_at_its_length_limit_says_so_everywhere(
    live: Live, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("So far and no",), reasoning=("long ", "thought"), truncated=True))
    turn = await begin(live.client)
    heard = await listen(live.client, turn["stream"])
    assert heard[-1].data["truncated"] is True
    forget(live)
    assert (await listen(live.client, turn["stream"]))[-1].data["truncated"] is True
    assert (await current(live.client, turn))["truncated"] is True
    [reply] = (await got(live.client, TURNS))["turns"][0]["replies"]
    assert (reply["truncated"], reply["has_reasoning"], reply["reasoning"]) == (True, True, None)
    [reply] = (await got(live.client, TURNS, reasoning="true"))["turns"][0]["replies"]
    assert reply["reasoning"] == "long thought"


async def test_page_with_reasoning_has_a_million_characters_too(
    app_client: httpx.AsyncClient, instance: str, root: Path
) -> None:
    written(root, instance, 0)
    for turn in range(1, 6):
        line = {"role": "assistant", "content": "yes", "turn": turn, "timestamp": NOW}
        append(root, instance, {**line, "reasoning": "\ud83d" + "x" * 400_000})
    assert len((await got(app_client, TURNS))["turns"]) == 5
    page = await got(app_client, TURNS, reasoning="true")
    assert [turn["turn"] for turn in page["turns"]] == [4, 5]
    assert page["older"] == 3
    assert page["turns"][0]["replies"][0]["reasoning"] == well_formed("\ud83d") + "x" * 400_000


async def test_why_a_reply_failed_is_told_apart_from_what_it_said(
    live: Live, instance: str, handed: HandedModel
) -> None:
    for speech in ("well", ""):
        turn = await begin(live.client, f"say {speech}")
        await handed.asked(turn["turn"])
        handed.say(*filter(None, [speech]))
        handed.fail()
        await listen(live.client, turn["stream"])
        reply = (await got(live.client, TURNS))["turns"][-1]["replies"][-1]
        assert reply["error"]
        assert reply["note"].startswith("(")
        assert reply["content"] == (f"{speech}\n" if speech else "") + reply["note"]


async def test_state_says_whether_markers_are_shown(
    app_client: httpx.AsyncClient, services: Services, instance: str
) -> None:
    for shown in (True, False):
        services.preferences.change({"preferences.show_markers": shown})
        assert (await got(app_client, f"/api/instances/{instance}"))["show_markers"] is shown
        assert (await got(app_client, "/api/settings"))["values"]["preferences.show_markers"] is shown
