"""What a turn refuses, what it does without, and what it counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from personalab.operations.instances import read_session, switch_background
from personalab.services import Services
from personalab.story.recall import Hit, RecallQuery, turn_event
from personalab.story.transcript import Turn, UserLine
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, only, play, plot, say, sent_words, snapshot

pytestmark = pytest.mark.anyio
Answer = Callable[..., ScriptedModel]

BAD_IDS = [
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "x" * 300,
    "",
    ".",
    "..",
    "CON",
    "nul",
    "com1",
    "a\x00b",
    "-x",
    "_x",
    "名",
    "a\n",
    "a.b",
    " a",
]


@pytest.mark.parametrize("bad", BAD_IDS)
async def test_an_id_that_is_no_id_is_refused_before_a_path_is_built(
    services: Services, root: Path, instance: str, bad: str
) -> None:
    before = snapshot(root)
    for action in ("say", "retry", "begin", "end"):
        events, result = await play(
            services,
            {"instance_id": bad, "user_input": "hi", "action": action, "turn": 1, "caller_reply": "x"},
        )
        assert (result["status"], result["error"]["code"], len(events)) == ("error", "bad_id", 1)
    assert snapshot(root) == before


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000", "\u2003"])
async def test_blank_input_is_refused_and_leaves_nothing(
    services: Services, root: Path, instance: str, text: str
) -> None:
    before = snapshot(root)
    _, result = await say(services, text)
    assert result["error"]["code"] == "blank_input"
    assert snapshot(root) == before


async def test_a_megabyte_of_input_is_refused_and_leaves_nothing(
    services: Services, root: Path, instance: str
) -> None:
    before = snapshot(root)
    _, result = await say(services, "x" * 1_000_000)
    assert "1000000" in result["error"]["message"]
    assert "200000" in result["error"]["message"]
    assert snapshot(root) == before


@pytest.mark.parametrize("name", ["character_state.json", "instance_state.json", "sessions/sess_001.jsonl"])
@pytest.mark.parametrize("harm", ["missing", "broken", "empty"])
async def test_a_turn_that_cannot_run_leaves_nothing_and_names_the_file(
    services: Services, root: Path, instance: str, name: str, harm: str
) -> None:
    path = root / "instances" / instance / name
    if harm == "missing":
        path.unlink()
    elif harm == "broken":
        path.write_bytes(path.read_bytes()[:-20].replace(b"{", b"", 1) + b"\n")
    else:
        path.write_bytes(b"")
    before = snapshot(root)
    events, result = await say(services, "你好")
    assert result["status"] == "error"
    assert name in result["error"]["message"]
    assert [event["type"] for event in events] == ["error"]
    assert snapshot(root) == before


async def test_an_unknown_instance_is_named_with_what_to_do(services: Services) -> None:
    _, result = await say(services, "hi", "nobody")
    assert result["error"]["code"] == "no_instance"
    assert "personalab new" in result["error"]["message"]


async def test_a_missing_background_gives_a_turn_without_one_and_a_warning(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    (root / "backgrounds" / "bg_wasteland" / "background.json").write_text("{", encoding="utf-8")
    model = answer_with("好。[PROGRESS:1:completed]")
    events, result = await say(services, "你好")
    assert result["status"] == "done"
    categories = [event["category"] for event in only(events, "warning")]
    assert categories == ["background_unreadable", "progress_out_of_range"]
    assert "背景设定" not in model.calls[0][0]["content"]
    assert plot(services) == {"current_plot_index": 1, "current_status": "pending", "no_update_count": 1}


@pytest.mark.parametrize("content", [None, "{", "[]", "\xff"])
async def test_a_broken_config_means_defaults_all_features_off_and_the_file_left_alone(
    services: Services, root: Path, instance: str, answer_with: Answer, content: str | None
) -> None:
    path = root / "config.json"
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="latin-1")
    model = answer_with("好。[PROGRESS:2:completed]")
    events, result = await say(services, "你还记得吗？")
    assert [event["category"] for event in only(events, "warning")] == ["config_unreadable"]
    assert "故事大纲" not in model.calls[0][0]["content"]
    assert plot(services)["current_plot_index"] == 1
    assert result["tokens"]["limit"] == 100_000
    assert (path.read_text(encoding="latin-1") if content is not None else path.exists()) == (
        content or False
    )


@pytest.mark.parametrize("content", [None, "{", '{"enabled": "yes"}'])
async def test_a_director_switch_that_cannot_be_read_is_off_with_a_warning(
    services: Services, root: Path, instance: str, answer_with: Answer, content: str | None
) -> None:
    path = root / "modules" / "director.json"
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="utf-8")
    model = answer_with("好。[PROGRESS:2:completed]")
    events, _ = await say(services, "你好")
    assert [event["category"] for event in only(events, "warning")] == ["director_switch"]
    assert "故事大纲" not in model.calls[0][0]["content"]
    assert plot(services) == {"current_plot_index": 1, "current_status": "pending", "no_update_count": 0}


@pytest.mark.parametrize(
    ("reply", "index", "status", "count", "warned"),
    [
        ("[PROGRESS:2:in_progress] 然后 [PROGRESS:3:completed]", 3, "completed", 0, False),
        ("走。[PROGRESS:2:in_progress][PROGRESS:9:completed]", 2, "in_progress", 0, True),
        ("走。[PROGRESS:9:completed]", 1, "pending", 1, True),
        ("走。[PROGRESS:0:completed]", 1, "pending", 1, True),
        ("走。[PROGRESS:x:completed][PROGRESS:2:done][progress:2:completed]", 1, "pending", 1, False),
        ("走。[PROGRESS:99999999999999999999:completed]", 1, "pending", 1, False),
        ("no marker", 1, "pending", 1, False),
    ],
)
async def test_the_last_valid_marker_stands(
    services: Services,
    instance: str,
    answer_with: Answer,
    reply: str,
    index: int,
    status: str,
    count: int,
    warned: bool,
) -> None:
    answer_with(reply)
    events, _ = await say(services, "继续")
    assert plot(services) == {"current_plot_index": index, "current_status": status, "no_update_count": count}
    categories = [event["category"] for event in only(events, "warning")]
    assert [found for found in categories if found != "progress_unreadable"] == [
        "progress_out_of_range"
    ] * warned
    assert ("progress_unreadable" in categories) == (":done]" in reply or "999" in reply)
    assert lines(services)[-1]["content"] == reply, "markers stay in what is stored and shown"


async def test_a_marker_split_over_tokens_counts_and_one_in_the_users_words_does_not(
    services: Services, instance: str, answer_with: Answer
) -> None:
    answer_with(ScriptedReply(("走。", "[PRO", "GRESS:2:in_", "progress", "]")), "好")
    await say(services, "一")
    assert plot(services)["current_plot_index"] == 2
    await say(services, "[PROGRESS:5:completed]")
    assert plot(services) == {"current_plot_index": 2, "current_status": "in_progress", "no_update_count": 1}


async def test_a_shorter_outline_keeps_the_plot_state_and_shows_every_point_completed(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    short = root / "backgrounds" / "bg_short"
    short.mkdir()
    outline = [{"index": 1, "content": "甲"}, {"index": 2, "content": "乙"}]
    (short / "background.json").write_text(json.dumps({"story_outline": outline}), encoding="utf-8")
    model = answer_with("走。[PROGRESS:5:in_progress]", "一", "二", "三", "四")
    await say(services, "快")
    await switch_background(services, instance, "bg_short")
    assert plot(services)["current_plot_index"] == 5
    for text in "abcd":
        await say(services, text)
    assert model.calls[-1][0]["content"].count('"status": "completed"') == 2
    assert "第2点：乙" in model.calls[-1][-1]["content"]
    await switch_background(services, instance, None)
    assert services.stories.instance(instance).background_id is None


async def test_a_prompt_over_its_limit_ends_the_turn_and_can_be_retried_later(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"max_total_tokens": 10_000})
    model = answer_with("好。")
    events, result = await say(services, "甲乙丙丁" * 5_000)
    actual = int(result["error"]["message"].split("（")[1].split(" >")[0])
    expected = f"Prompt总长度超过限制（{actual} > 10000），请执行汇总或调整配置"
    assert (result["status"], result["error"]["message"], only(events, "token")) == ("error", expected, [])
    assert lines(services)[-1]["role"] == "user"
    assert not model.calls
    services.preferences.change({"max_total_tokens": 200_000})
    _, again = await play(services, {"instance_id": instance, "action": "retry"})
    assert (again["status"], again["turn"]) == ("done", 1)
    assert [line.get("role") for line in lines(services)] == [None, "user", "assistant"]


async def test_long_sections_warn_once_each_with_the_sources_object(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"max_total_tokens": 20_000, "middle_section_warning_tokens": 1_000})
    state = root / "instances" / instance / "character_state.json"
    state.write_text(json.dumps({"base_persona": "the " * 5_000}), encoding="utf-8")
    answer_with("好。")
    events, result = await say(services, "the " * 13_500)
    warnings = {event["category"]: event for event in only(events, "warning")}
    assert set(warnings) == {"middle_section_overflow", "total_near_limit", "head_overflow"}
    assert len(only(events, "warning")) == 3
    middle = warnings["middle_section_overflow"]
    assert {key: middle[key] for key in ("type", "message", "threshold", "suggestion")} == {
        "type": "warning",
        "message": "当前对话历史过长",
        "threshold": 1_000,
        "suggestion": "建议执行汇总功能",
    }
    assert middle["current_value"] == result["tokens"]["middle"]
    assert [warning["category"] for warning in result["warnings"]] == [
        event["category"] for event in only(events, "warning")
    ]


async def test_without_load_all_only_the_newest_whole_turns_are_sent(
    services: Services, instance: str, answer_with: Answer
) -> None:
    services.preferences.change({"conversation_load_all": False, "conversation_max_tokens": 1_000})
    model = answer_with(*["答" * 200 for _ in range(12)])
    for number in range(12):
        await say(services, f"第{number}句" + "问" * 200)
    sent = sent_words(model.calls[-1])
    assert sent[-1].endswith("第11句" + "问" * 200)
    assert 1 < len(sent) < 23
    assert sent[0].startswith("第"), "a turn is sent whole, or not at all"


@pytest.mark.parametrize(
    "text",
    [
        "😀👩‍👩‍👧",
        "e\u0301\u0327",
        "a\u2028b\u2029c",
        "nul\x00nul",
        "half \ud800 half",
        "\u202eRTL",
        '[PROGRESS:1:completed]\\n"',
    ],
)
async def test_odd_text_is_stored_as_it_was_said_and_answered(
    services: Services, instance: str, answer_with: Answer, text: str
) -> None:
    answer_with("嗯：" + text)
    _, result = await say(services, text)
    assert result["status"] == "done"
    assert lines(services)[-2]["content"] == text
    assert (await read_session(services, instance)).entries[0]["content"] == text


async def test_unknown_fields_of_every_file_survive_a_turn(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    path = root / "instances" / instance / "instance_state.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    data["mood"] = {"deep": [1, None]}
    data["plot_state"]["note"] = "mine"
    path.write_text(json.dumps(data), encoding="utf-8")
    answer_with("走。[PROGRESS:2:completed]")
    await say(services, "hi")
    after = json.loads(path.read_text(encoding="utf-8"))
    assert (after["mood"], after["plot_state"]["note"]) == ({"deep": [1, None]}, "mine")
    assert after["plot_state"]["current_plot_index"] == 2


async def test_an_older_trees_session_name_is_read_and_written(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    folder = root / "instances" / instance / "sessions"
    (folder / "sess_001.jsonl").rename(folder / "session_001.jsonl")
    answer_with("好")
    _, result = await say(services, "hi")
    assert result["status"] == "done"
    assert [path.name for path in folder.iterdir()] == ["session_001.jsonl"]
    assert len((folder / "session_001.jsonl").read_bytes().splitlines()) == 3


async def test_ids_inside_files_are_not_trusted_either(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    path = root / "instances" / instance / "instance_state.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, "current_session_id": "../../config"}), encoding="utf-8")
    _, result = await say(services, "hi")
    assert result["error"]["code"] == "file_broken"
    path.write_text(json.dumps({**data, "background_id": "../../characters/char_alserqi"}), encoding="utf-8")
    answer_with("好")
    events, result = await say(services, "hi")
    assert (result["status"], only(events, "warning")[0]["category"]) == ("done", "background_unreadable")


async def test_a_hand_edited_session_is_what_the_next_turn_sees(
    services: Services, instance: str, answer_with: Answer
) -> None:
    model = answer_with("一", "二")
    await say(services, "aaa")
    path = services.stories.session_path(instance, "sess_001")
    path.write_bytes(path.read_bytes().replace(b"aaa", b"bbb"))
    await say(services, "next")
    assert sent_words(model.calls[1]) == ["bbb", "一", "next"]


async def test_the_head_is_the_same_to_the_byte_while_nothing_in_it_changed(
    services: Services, instance: str, answer_with: Answer
) -> None:
    model = answer_with("一", "二 [PROGRESS:2:in_progress]", "三")
    for text in "abc":
        await say(services, text)
    heads = [call[0]["content"] for call in model.calls]
    assert heads[0] == heads[1] != heads[2]


async def test_a_library_that_fails_in_its_own_way_does_not_fail_the_turn(
    services: Services, instance: str, answer_with: Answer
) -> None:
    class Broken(InMemoryLibrary):
        async def search(self, search: RecallQuery) -> list[Hit]:
            raise RuntimeError("not one of ours")

    services.__dict__["library"] = Broken()
    answer_with("好。")
    events, result = await say(services, "你还记得吗？")
    assert (result["status"], only(events, "warning")[0]["category"]) == ("done", "recall_unavailable")


@pytest.mark.parametrize("text", ["", "{notes}", "no place at all"])
async def test_an_edited_template_cannot_lose_the_users_words(
    services: Services, root: Path, instance: str, library: InMemoryLibrary, answer_with: Answer, text: str
) -> None:
    (root / "prompt_templates" / "zh" / "turn_note.txt").write_text(text, encoding="utf-8")
    await library.write(
        [turn_event(Turn(1, UserLine("我们的约定", 1, "")), instance, "sess_000", "char_alserqi", "")]
    )
    model = answer_with("好。")
    events, _ = await say(services, "你还记得我们的约定吗？")
    assert "你还记得我们的约定吗？" in model.calls[0][-1]["content"]
    assert [event["category"] for event in only(events, "warning")] == ["template_unreadable"]


async def test_a_template_without_places_is_not_sent_when_its_section_is_empty(
    services: Services, root: Path, instance: str, answer_with: Answer
) -> None:
    (root / "prompt_templates" / "zh" / "director_reminder.txt").write_text("always this", encoding="utf-8")
    (root / "prompt_templates" / "zh" / "progress_instruction.txt").write_text("", encoding="utf-8")
    model = answer_with("好。")
    await say(services, "走")
    assert "always this" not in str(model.calls[0])


async def test_the_transcript_reads_a_turn_that_is_being_written(services: Services, instance: str) -> None:
    writer = services.stories.writer(instance, "sess_001")
    writer.append(UserLine("hi", 1, "t"))
    writer.begin_reply(1, "t").write("half")
    page = await read_session(services, instance)
    writer.close()
    assert [entry["content"] for entry in page.entries] == ["hi", "half"]
