"""Role instruction, example dialogues and closing reminder in the prompt, and what stays the same between turns."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graph.preview import preview_prompt
from personalab.dialogue import Message
from personalab.operations.instances import new_instance
from personalab.services import Services
from personalab.story.records import Character, Instructions
from personalab.testing.scripted import ScriptedModel
from tests.support.graph.turns import say

Answer = Callable[..., ScriptedModel]
pytestmark = pytest.mark.anyio

EXAMPLES = (
    "<START>\n{{user}}: Who are you?\n{{char}}: (bows) {{char}}, at your service.\n"
    "<START>\n{{char}}: Sit, {{user}}."
)
START = "(The following is an example of how the character speaks. It did not happen in the story.)"
END = "(End of the examples. The story begins here.)"


async def _begin(services: Services, *, greeting: str = "", background: str | None = None) -> None:
    character = Character(
        "char_ann",
        "Ann",
        "A host.",
        "en",
        greetings=(greeting,) if greeting else (),
        instructions=Instructions(example_dialogue=EXAMPLES),
    )
    services.stories.save_character(character)
    await new_instance(services, "char_ann", background, "inst_001")


def _said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


async def test_examples_are_messages_before_the_first_words(services: Services) -> None:
    await _begin(services)
    prompt = (await preview_prompt(services, "inst_001", "Hello")).prompt
    system, *rest = _said(prompt.messages)
    assert "at your service" not in system[1]
    assert rest[:-1] == [
        ("user", f"{START}\n\nWho are you?"),
        ("assistant", "(bows) Ann, at your service."),
        ("user", START),
        ("assistant", "Sit, User."),
    ]
    assert rest[-1][0] == "user"
    assert rest[-1][1].startswith(f"{END}\n\nHello\n\n")


async def test_examples_come_before_a_greeting(services: Services) -> None:
    await _begin(services, greeting="You are late.")
    messages = _said((await preview_prompt(services, "inst_001", "Sorry.")).prompt.messages)
    assert messages[5:7] == [("user", END), ("assistant", "You are late.")]
    roles = [role for role, _ in messages]
    assert roles == ["system", *("user", "assistant") * 3, "user"]


async def test_examples_are_a_section_with_a_heading_and_tokens(services: Services) -> None:
    await _begin(services, background="bg_lighthouse")
    found = await preview_prompt(services, "inst_001", "Hello")
    names = [section.name for section in found.prompt.sections]
    assert names == [
        *("system_prompt", "base_persona", "background", "story_outline", "progress_instruction"),
        *("example_dialogue", "conversation", "post_history_instructions"),
    ]
    section = found.prompt.sections[names.index("example_dialogue")]
    assert section.text == (
        f"=== Example dialogue ===\n{START}\nUser: Who are you?\nAssistant: (bows) Ann, at your service.\n\n"
        f"{START}\nAssistant: Sit, User."
    )
    assert found.tokens["sections"]["example_dialogue"] == section.tokens > 0
    assert found.tokens["total"] == sum(found.tokens["sections"].values())
    assert section.text in found.prompt.text()


async def test_examples_are_dropped_first_where_the_prompt_would_be_too_long(services: Services) -> None:
    await _begin(services)
    services.preferences.change({"limits.max_total_tokens": 10_000})
    fits = await preview_prompt(services, "inst_001", "one " * 8_000)
    more = await preview_prompt(services, "inst_001", "one " * (8_000 + 9_000 - fits.tokens["total"] + 5))
    assert fits.prompt.dropped == ()
    assert more.prompt.dropped == ("example_dialogue",)
    kept = {name: tokens for name, tokens in fits.tokens["sections"].items() if name != "example_dialogue"}
    rest = more.tokens["sections"]
    assert list(rest) == list(kept)
    assert {name: rest[name] for name in rest if name != "conversation"} == {
        name: kept[name] for name in kept if name != "conversation"
    }
    assert [role for role, _ in _said(more.prompt.messages)] == ["system", "user"]
    assert more.tokens["total"] <= 10_000


async def test_a_story_keeps_the_examples_it_began_with(services: Services, root: Path) -> None:
    await _begin(services)
    state = json.loads((root / "instances/inst_001/character_state.json").read_bytes())
    definition = json.loads((root / "characters/char_ann/definition.json").read_bytes())
    assert state["example_dialogue"] == definition["example_dialogue"] == EXAMPLES


@pytest.mark.parametrize("greeting", ["", "You are late."])
async def test_all_messages_but_the_last_stay_the_same_bytes_from_turn_to_turn(
    services: Services, answer_with: Answer, greeting: str
) -> None:
    await _begin(services, greeting=greeting, background="bg_lighthouse")
    # No reply has a marker, so that the director reminds in later turns; "remember" asks for the past.
    model = answer_with(*(f"Reply {number}." for number in range(7)))
    for number in range(7):
        await say(services, f"Do you remember question {number}?")
    calls = [list(call) for call in model.calls]
    reminder = services.preferences.templates("en")[0]["post_history_instructions"]
    told = reminder.replace("{{char}}", "Ann").replace("{{user}}", "User")
    for before, after in itertools.pairwise(calls):
        kept = json.dumps(before[:-1], ensure_ascii=False).encode()
        assert json.dumps(after[: len(before) - 1], ensure_ascii=False).encode() == kept
        assert len(after) == len(before) + 2
    for call in calls:
        assert call[-1]["content"].endswith(f"\n\n[{told}]")
        assert not any(told in message["content"] for message in call[:-1])
    assert any("Director's reminder" in call[-1]["content"] for call in calls)


async def test_the_stand_in_does_not_take_examples_for_turns(services: Services) -> None:
    await _begin(services)
    _, result = await say(services, "Is it raining?")
    assert result["reply"].startswith("(This is a rehearsal stand-in")
    assert "Is it raining?" in result["reply"]
    assert "examples" not in result["reply"]


@pytest.mark.parametrize("blank", ["", " \n"])
async def test_blank_templates_send_no_empty_messages(services: Services, root: Path, blank: str) -> None:
    await _begin(services)
    for name in ("example_start", "example_end", "opening", "empty_reply_reminder"):
        (root / "prompt_templates" / "en" / f"{name}.txt").write_text(blank, encoding="utf-8")
    found = await preview_prompt(services, "inst_001", "Hello")
    _, *rest = _said(found.prompt.messages)
    assert rest[:-1] == [
        ("user", "Who are you?"),
        ("assistant", "(bows) Ann, at your service."),
        ("user", START),
        ("assistant", "Sit, User."),
    ]
    assert rest[-1][1].startswith("Hello")
    assert START not in found.prompt.text()
    assert not found.warnings


async def test_a_user_speaks_between_two_words_of_the_character_also_with_blank_templates(
    services: Services, root: Path
) -> None:
    await _begin(services, greeting="You are late.")
    for name in ("example_start", "example_end", "opening"):
        (root / "prompt_templates" / "en" / f"{name}.txt").write_text("", encoding="utf-8")
    messages = _said((await preview_prompt(services, "inst_001", "Hello")).prompt.messages)
    assert messages[-3:-1] == [("user", END), ("assistant", "You are late.")]
    services.stories.save_character(Character("char_bob", "Bob", "x", "en", greetings=("Hm.",)))
    await new_instance(services, "char_bob", None, "inst_002")
    messages = _said((await preview_prompt(services, "inst_002", "Hello")).prompt.messages)
    assert messages[1:-1] == [("user", "(The story begins.)"), ("assistant", "Hm.")]


async def test_blank_reminder_leaves_the_second_try_as_the_first(
    services: Services, root: Path, answer_with: Answer
) -> None:
    await _begin(services)
    (root / "prompt_templates" / "en" / "empty_reply_reminder.txt").write_text("", encoding="utf-8")
    model = answer_with(" ", "Hi.")
    await say(services, "Hello")
    assert model.calls[0] == model.calls[1]
