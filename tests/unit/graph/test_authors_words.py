"""Tests of greetings, names, instructions and lore in a turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.preview import Preview, preview_prompt
from personalab.errors import UserError
from personalab.operations.importing import import_files
from personalab.operations.instances import new_instance
from personalab.services import Services
from personalab.story.macros import Names, replaced
from personalab.story.records import Character, Instructions, display_name
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.support.graph.turns import lines, plot, say

Answer = Callable[..., ScriptedModel]
pytestmark = pytest.mark.anyio

GREETINGS = ("*{{char}} looks at {{user}}.* You are late.", "<USER>! <BOT> has waited.", "Hm.")


@pytest.fixture
def ann(services: Services) -> Services:
    """A character with everything an author can write."""
    told = Instructions("You are {{char}}. {{original}}", "Answer {{user}} briefly.")
    character = Character("char_ann", "Ann", "{{Char}} trusts {{USER}}.", "en", {}, GREETINGS, told)
    services.stories.save_character(character)
    return services


async def _preview(services: Services, text: str = "Hello", **new: int) -> Preview:
    state = await new_instance(services, "char_ann", None, "inst_001", **new)
    return await preview_prompt(services, state.instance_id, text)


# --- greetings


async def test_a_story_opens_with_the_first_greeting_and_the_players_first_words_are_turn_1(
    ann: Services, answer_with: Answer
) -> None:
    answer_with("Sit down.")
    await new_instance(ann, "char_ann", None, "inst_001")
    _, result = await say(ann, "Sorry.")
    assert (result["turn"], result["reply"]) == (1, "Sit down.")
    told = [(line.get("turn"), line.get("role"), line.get("content")) for line in lines(ann)[1:]]
    assert told == [
        (0, "assistant", "*Ann looks at User.* You are late."),
        (1, "user", "Sorry."),
        (1, "assistant", "Sit down."),
    ]


async def test_the_model_reads_the_opening_after_a_user_who_says_that_the_story_begins(
    ann: Services, answer_with: Answer
) -> None:
    model = answer_with("Sit down.")
    await new_instance(ann, "char_ann", None, "inst_001")
    await say(ann, "Sorry.")
    roles = [message["role"] for message in model.calls[0]]
    assert roles == ["system", "user", "assistant", "user"]
    assert model.calls[0][1]["content"] == "(The story begins.)"
    assert model.calls[0][2]["content"] == "*Ann looks at User.* You are late."


@pytest.mark.parametrize(("greeting", "opening"), [(2, "User! Ann has waited."), (3, "Hm."), (0, None)])
async def test_another_greeting_can_be_chosen_or_none(
    ann: Services, greeting: int, opening: str | None
) -> None:
    await new_instance(ann, "char_ann", None, "inst_001", greeting=greeting)
    assert [line["content"] for line in lines(ann)[1:]] == ([opening] if opening else [])


@pytest.mark.parametrize("greeting", [4, -1])
async def test_a_greeting_there_is_none_of_is_refused_and_leaves_nothing(
    ann: Services, root: Path, greeting: int
) -> None:
    with pytest.raises(UserError, match="has 3"):
        await new_instance(ann, "char_ann", None, "inst_001", greeting=greeting)
    assert not (root / "instances").exists() or not list((root / "instances").iterdir())


async def test_a_character_without_greetings_lets_the_player_speak_first(services: Services) -> None:
    await new_instance(services, "char_maren", None, "inst_001")
    assert len(lines(services)) == 1


async def test_the_opening_cannot_be_retried(ann: Services, answer_with: Answer) -> None:
    from tests.support.graph.turns import play

    answer_with("x")
    await new_instance(ann, "char_ann", None, "inst_001")
    _, result = await play(ann, {"instance_id": "inst_001", "action": "retry"})
    assert result["error"]["code"] == "nothing_to_retry"
    assert plot(ann)["no_update_count"] == 0


async def test_a_summary_tells_the_opening_as_well(ann: Services, answer_with: Answer) -> None:
    from graph.summarize import stream_summary

    model = answer_with(
        "Sit down.", json.dumps({"points": [{"summary": "They met.", "plot": "They met.", "turns": [0, 1]}]})
    )
    await new_instance(ann, "char_ann", None, "inst_001")
    await say(ann, "Sorry.")
    parts = [dict(part) async for part in stream_summary(ann, {"instance_id": "inst_001"})]
    assert parts[-1]["status"] == "done"
    assert "You are late." in model.calls[1][1]["content"]
    kept = [line["content"] for line in lines(ann, session_id="sess_002") if "role" in line]
    assert kept == ["*Ann looks at User.* You are late.", "Sorry.", "Sit down."]


# --- names


async def test_names_are_put_in_when_the_prompt_is_made_and_follow_the_setting(ann: Services) -> None:
    found = await _preview(ann)
    assert "Ann trusts User." in found.prompt.text()
    ann.preferences.change({"player_name": "Zoe"})
    again = await preview_prompt(ann, "inst_001", "Hello")
    assert "Ann trusts Zoe." in again.prompt.text()
    assert json.loads((ann.stories.instances / "inst_001" / "character_state.json").read_bytes())[
        "base_persona"
    ] == ("{{Char}} trusts {{USER}}.")


async def test_a_nickname_stands_for_the_character(services: Services) -> None:
    character = Character("char_ann", "Ann Smith", "{{char}} is here.", "en", {"nickname": "Annie"})
    services.stories.save_character(character)
    assert "Annie is here." in (await _preview(services)).prompt.text()


async def test_a_story_from_before_names_were_kept_asks_the_library(ann: Services) -> None:
    await new_instance(ann, "char_ann", None, "inst_001")
    path = ann.stories.instances / "inst_001" / "character_state.json"
    state = json.loads(path.read_bytes())
    del state["name"]
    path.write_text(json.dumps(state), encoding="utf-8")
    assert "Ann trusts User." in (await preview_prompt(ann, "inst_001")).prompt.text()


async def test_an_update_of_the_memory_reads_names_too(ann: Services, answer_with: Answer) -> None:
    from graph.update_memory import stream_update

    model = answer_with("Sit down.", ScriptedReply((json.dumps({"evolved_persona": "", "changes": []}),)))
    await new_instance(ann, "char_ann", None, "inst_001")
    await say(ann, "Sorry.")
    _ = [part async for part in stream_update(ann, {"instance_id": "inst_001"})]
    asked = model.calls[1][1]["content"]
    assert "Ann trusts User." in asked
    assert "{{" not in asked


@given(st.text(), st.text(alphabet="abc阿", min_size=1), st.text(alphabet="xyz我", min_size=1))
def test_only_the_placeholders_change(text: str, character: str, player: str) -> None:
    names = Names(character, player)
    plain = text.replace("{", "").replace("<", "")
    assert names.fill(plain) == plain
    assert names.fill(f"{plain}{{{{char}}}}{plain}<user>") == f"{plain}{character}{plain}{player}"


def test_what_authors_note_for_themselves_is_left_out() -> None:
    names = Names("Ann", "Zoe")
    assert names.fill("a{{// not this}}b{{comment: nor this}}c{{noop}}") == "abc"
    assert names.fill("a{{// {{char}} is shy}}b") == "ab"


def test_names_cannot_blow_a_text_up() -> None:
    filled = Names("x" * 400, "y").fill("<BOT>" * 200_000)
    assert len(filled) < 1_200_000
    assert filled.startswith("x" * 400)
    long = Character("c", "n" * 1_000_000, "", None, {"nickname": "m" * 1_000_000})
    assert len(display_name(long)) == 400


def test_what_is_left_to_chance_is_settled_once_for_a_text() -> None:
    names = Names("Ann", "Zoe")
    text = "{{random:a,b\\,c}} {{pick:x,y,z}} {{roll:d6}} {{roll:20}} {{Reverse: abc}} {{roll:many}}"
    filled = names.fill(text)
    assert filled == names.fill(text)
    first, second, die, long, turned, kept = filled.split(" ")
    assert first in ("a", "b,c")
    assert second in ("x", "y", "z")
    assert 1 <= int(die) <= 6
    assert 1 <= int(long) <= 20
    assert (turned, kept) == ("cba", "{{roll:many}}")
    assert names.fill("{{random::a::b, c}}") in ("a", "b, c")
    assert 3 <= int(names.fill("{{roll:3d6}}")) <= 18
    assert 6 <= int(names.fill("{{roll 1d6+5}}")) <= 11
    assert names.fill("{{roll:0}}") == "{{roll:0}}"
    assert names.fill("a{{newline}}b\n{{trim}}\nc{{time}}") == "a\nbc{{time}}"
    assert {names.fill(f"{number}{{{{pick:0,1}}}}")[-1] for number in range(20)} == {"0", "1"}


# --- instructions


async def test_creator_notes_are_in_no_prompt(
    services: Services, tmp_path: Path, answer_with: Answer
) -> None:
    notes = "BUY MY OTHER CARDS"
    data: dict[str, object] = {
        "name": "Ann",
        "description": "A keeper.",
        "first_mes": "Hello.",
        "creator_notes": notes,
        "creator_notes_multilingual": {"en": notes},
        "character_book": {"entries": [], "description": notes},
    }
    path = tmp_path / "ann.json"
    path.write_text(json.dumps({"spec": "chara_card_v3", "spec_version": "3.0", "data": data}), "utf-8")
    await import_files(services, [path])
    model = answer_with("Hi.", "Again.")
    await new_instance(services, "ann", None, "inst_001")
    await say(services, "Hello")
    await say(services, "Go on")
    assert "A keeper." in str(model.calls[0])
    assert notes not in str(model.calls)


async def test_an_authors_instructions_stand_first_and_last(ann: Services, root: Path) -> None:
    (root / "prompt_templates" / "en" / "system_prompt.txt").write_text("Be kind.", encoding="utf-8")
    found = await _preview(ann)
    names = [section.name for section in found.prompt.sections]
    assert (names[0], names[-1]) == ("system_prompt", "post_history_instructions")
    assert found.prompt.sections[0].text == "You are Ann. Be kind."
    assert found.prompt.messages[0]["content"].startswith("You are Ann. Be kind.\n\n")
    last = found.prompt.messages[-1]
    assert last["role"] == "user"
    assert last["content"].startswith("Hello\n\n")
    assert last["content"].endswith("\n\n[Answer User briefly.]")


async def test_the_readers_own_instructions_hold_where_the_author_gives_none(
    services: Services, root: Path
) -> None:
    services.stories.save_character(Character("char_ann", "Ann", "x", "en"))
    for name in ("system_prompt", "post_history_instructions"):
        path = root / "prompt_templates" / "en" / f"{name}.txt"
        path.write_text(f"mine: {name} for {{{{user}}}}", encoding="utf-8")
    found = await _preview(services)
    assert [section.text for section in (found.prompt.sections[0], found.prompt.sections[-1])] == [
        "mine: system_prompt for User",
        "mine: post_history_instructions for User",
    ]


async def test_the_shipped_instructions_open_and_close_the_prompt(services: Services) -> None:
    services.stories.save_character(Character("char_ann", "Ann", "x", "en"))
    prompt = (await _preview(services)).prompt
    names = [section.name for section in prompt.sections]
    assert names == ["system_prompt", "base_persona", "conversation", "post_history_instructions"]
    assert prompt.messages[0]["content"].startswith("You play Ann")
    assert "{{" not in prompt.text()


async def test_with_blank_templates_the_prompt_has_no_instructions(services: Services, root: Path) -> None:
    services.stories.save_character(Character("char_ann", "Ann", "x", "en"))
    for name in ("system_prompt", "post_history_instructions"):
        (root / "prompt_templates" / "en" / f"{name}.txt").write_text("", encoding="utf-8")
    names = [section.name for section in (await _preview(services)).prompt.sections]
    assert names == ["base_persona", "conversation"]


@pytest.mark.parametrize(
    ("reminder", "sent"),
    [
        ("Stay brief.", "[Stay brief.]"),
        ("[Stay brief.]", "[Stay brief.]"),
        ("[Stay [very] brief.]\n", "[Stay [very] brief.]"),
        ("[One] and [two]", "[[One] and [two]]"),
        ("[]", "[]"),
    ],
)
async def test_a_reminder_in_brackets_is_not_put_in_brackets_again(
    services: Services, reminder: str, sent: str
) -> None:
    instructions = Instructions(post_history_instructions=reminder)
    services.stories.save_character(Character("char_ann", "Ann", "x", "en", instructions=instructions))
    prompt = (await _preview(services)).prompt
    assert prompt.messages[-1]["content"] == f"Hello\n\n{sent}"


def test_an_instruction_may_quote_what_it_replaces() -> None:
    assert replaced("A {{Original}} B", "x\\1") == "A x\\1 B"
    assert replaced("  ", "x") == "x"


# --- lore


def _book(root: Path, place: str, *entries: dict[str, object]) -> None:
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    full: list[dict[str, object]] = [
        {"keys": [], "content": "", "extensions": {}, "enabled": True, "insertion_order": 1, **entry}
        for entry in entries
    ]
    path = folder / "lorebook.json"
    path.write_text(json.dumps({"entries": full, "extensions": {}}, ensure_ascii=False), encoding="utf-8")


async def test_lore_stands_before_and_after_the_character_with_its_reasons(ann: Services, root: Path) -> None:
    _book(
        root,
        "characters/char_ann",
        {
            "keys": ["灯塔"],
            "content": "{{char}} fears the tower.",
            "name": "tower",
            "position": "before_char",
        },
        {"keys": [], "constant": True, "content": "It rains.", "position": "after_char"},
        {"keys": ["dragon"], "content": "No dragons."},
    )
    found = await _preview(ann, "我们去老灯塔下面吧")
    names = [section.name for section in found.prompt.sections]
    assert names[:4] == ["system_prompt", "lorebook_before_char", "base_persona", "lorebook_after_char"]
    text = found.prompt.text()
    assert text.index("Ann fears the tower.") < text.index("Ann trusts User.") < text.index("It rains.")
    assert "No dragons" not in text
    told = {hit["name"] or hit["why"]: (hit["why"], hit.get("key"), hit["shown"]) for hit in found.lore}
    assert told == {"tower": ("key", "灯塔", True), "constant": ("constant", None, True)}


async def test_a_background_has_lore_as_well(ann: Services, root: Path) -> None:
    _book(root, "backgrounds/bg_lighthouse", {"keys": ["lamp"], "content": "The lamp is out."})
    await new_instance(ann, "char_ann", "bg_lighthouse", "inst_001")
    assert "The lamp is out." in (await preview_prompt(ann, "inst_001", "Light the LAMP")).prompt.text()
    assert "The lamp is out." not in (await preview_prompt(ann, "inst_001", "Sleep")).prompt.text()


async def test_a_turn_sends_what_the_preview_shows(ann: Services, root: Path, answer_with: Answer) -> None:
    _book(root, "characters/char_ann", {"keys": ["tower"], "content": "The tower fell."})
    model = answer_with("Yes.", "No.")
    found = await _preview(ann, "The tower?")
    await say(ann, "The tower?")
    assert model.calls[0][0]["content"] == found.prompt.messages[0]["content"]
    assert "The tower fell." in model.calls[0][0]["content"]


async def test_lore_may_belong_to_one_greeting(ann: Services, root: Path) -> None:
    _book(
        root,
        "characters/char_ann",
        {"constant": True, "content": "@@is_greeting 0\nShe is at home."},
        {"constant": True, "content": "@@is_greeting 1\nShe is at sea."},
    )
    text = (await _preview(ann, greeting=2)).prompt.text()
    assert "She is at sea." in text
    assert "She is at home." not in text


async def test_lore_can_be_switched_off(ann: Services, root: Path) -> None:
    _book(root, "characters/char_ann", {"constant": True, "content": "It rains."})
    (root / "modules" / "lorebook.json").write_text('{"enabled": false}', encoding="utf-8")
    found = await _preview(ann)
    assert "It rains." not in found.prompt.text()
    assert found.lore == []


async def test_a_lorebook_that_cannot_be_read_is_reported_and_the_turn_goes_on(
    ann: Services, root: Path, answer_with: Answer
) -> None:
    (root / "characters" / "char_ann" / "lorebook.json").write_text('{"entries": 3}', encoding="utf-8")
    answer_with("Sit down.")
    await new_instance(ann, "char_ann", None, "inst_001")
    _, result = await say(ann, "Sorry.")
    assert result["status"] == "done"
    assert [warning["category"] for warning in result["warnings"]] == ["lorebook_unreadable"]


async def test_a_retry_calls_up_the_same_lore_as_the_first_try(
    ann: Services, root: Path, answer_with: Answer
) -> None:
    from tests.support.graph.turns import play

    _book(root, "characters/char_ann", {"keys": ["tower"], "content": "The tower fell."})
    model = answer_with(ScriptedReply(("the tow", "er"), fail_after=2), "Yes.")
    await new_instance(ann, "char_ann", None, "inst_001")
    await say(ann, "Sorry.")
    await play(ann, {"instance_id": "inst_001", "action": "retry"})
    assert model.calls[0] == model.calls[1]
