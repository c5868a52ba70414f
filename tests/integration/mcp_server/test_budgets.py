"""Tests that every result fits into a host's token limit, and that pages join to the whole.

Claude Code's limit is 25,000 tokens per result. Tokens are counted in both vocabularies, over the whole
result as JSON: text, structured content and everything around them.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult, TextContent
from mcp_types import Tool as ListedTool

from mcp_server.server import build_server
from personalab.providers.tokens import OfflineCounter
from personalab.services import Services
from personalab.story.recall import StoryEvent
from personalab.story.records import Background, Character, OutlinePoint, is_id
from personalab.story.transcript import (
    AssistantLine,
    Line,
    Metadata,
    Summary,
    UserLine,
    dump_line,
    line_fields,
)
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel, ScriptedReply
from tests.conftest import NOW, PROJECT
from tests.support.graph.turns import sent_words

LIMIT = 25_000
LIST_LIMIT = 6_000
COUNTERS = (OfflineCounter("o200k_base"), OfflineCounter("cl100k_base"))
MANY_PAGES = 2_000

_dice = random.Random(7)


def _any_of(first: int, last: int, count: int = 25_000) -> str:
    return "".join(chr(_dice.randint(first, last)) for _ in range(count))


def _shipped(character_id: str) -> str:
    path = PROJECT / "data" / "shipped" / "characters" / character_id / "definition.json"
    return json.loads(path.read_text(encoding="utf-8"))["base_persona"]


TEXTS = {
    "chinese": _shipped("char_alserqi") * 250,
    "english": 'He said "no", and went on down the road, thinking of home.\n' * 3_000,
    "japanese": "これはとても長い物語です。多くの人々が住んでいます。\n" * 2_500,
    "korean": "이것은 아주 긴 이야기입니다. 사람들이 많이 살고 있습니다. " * 2_000,
    "thai": "นี่คือเรื่องราวที่ยาวมาก มีผู้คนมากมายอาศัยอยู่ " * 1_500,
    "hindi": "यह एक कहानी है जिसमें बहुत से लोग रहते हैं। " * 1_500,
    "arabic": "هذه قصة طويلة جدا عن أناس كثيرين يعيشون هناك. " * 1_500,
    "emoji": _any_of(0x1F300, 0x1FAF0),
    "rare characters": _any_of(0x20000, 0x2A6DF),
    "quotes": "x" + '"' * 100_000,
    "backslashes": "\\" * 100_000,
    "blank lines": "\n" * 100_000 + "x",
    "control characters": _any_of(1, 31) + "x",
    "json": json.dumps({"a": ["x"] * 3, "b": 'c\n"d"'}) * 3_000,
    "code": '- **bold** `code`\n\n\n    x\n\t\ty = "z"\r\n' * 3_000,
    "random letters": "".join(_dice.choices("abcdefghijklmnopqrstuvwxyz0123456789-_/+=", k=80_000)),
}
"""What a reply may be; some are made to be cheap in one form and dear in another."""
SOME = ("chinese", "english", "korean", "rare characters", "quotes", "control characters")

# --- calling and counting


def tokens(result: CallToolResult) -> int:
    """Count a whole result, in the vocabulary and the form in which it is dearest."""
    dumped = result.model_dump_json(by_alias=True, exclude_none=True)
    most = max(counter.count(dumped) for counter in COUNTERS)
    if most < LIMIT // 2:  # the other form differs by some blanks only
        return most
    spaced = json.dumps(json.loads(dumped), ensure_ascii=False)
    return max(most, *(counter.count(spaced) for counter in COUNTERS))


def fields_of(result: CallToolResult) -> dict[str, Any]:
    """Give a result's structured content."""
    return result.structured_content or {}


def text_of(result: CallToolResult) -> str:
    """Give a result's text."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@dataclass(frozen=True, slots=True)
class Desk:
    """A client that looks at every result it gets."""

    client: Client
    tools: dict[str, ListedTool]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed; its result is small and what it was said to be."""
        result = await self.raw(tool, **arguments)
        assert not result.is_error, text_of(result)
        return fields_of(result)

    async def raw(self, tool: str, **arguments: Any) -> CallToolResult:
        """Call a tool; its result is small, an error or what it was said to be."""
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        assert tokens(result) < LIMIT, tool
        assert text_of(result).strip()
        if not result.is_error:
            schema = self.tools[tool].output_schema
            assert schema is not None
            jsonschema.validate(result.structured_content, schema)
        return result

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that must refuse; give what it says."""
        result = await self.raw(tool, **arguments)
        assert result.is_error, result.structured_content
        return text_of(result)

    async def pages(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        """Follow the cursors to the end."""
        found = [await self.call(tool, **arguments)]
        while (cursor := found[-1]["cursor"]) is not None:
            assert len(found) < MANY_PAGES
            found.append(await self.call(tool, cursor=cursor, **arguments))
        return found


@asynccontextmanager
async def at_the_desk(services: Services) -> AsyncGenerator[Desk]:
    """Open a client."""
    async with Client(build_server(services)) as client:
        yield Desk(client, {tool.name: tool for tool in (await client.list_tools()).tools})


@pytest.fixture(autouse=True)
def library(services: Services) -> InMemoryLibrary:
    """An event library in memory."""
    found = InMemoryLibrary()
    services.__dict__["library"] = found
    return found


def write_session(services: Services, lines: Iterable[Line], instance_id: str = "inst_001") -> None:
    """Put lines into an instance's session, as any program might."""
    path = services.stories.session_path(instance_id, "sess_001")
    path.write_bytes(dump_line(Metadata(instance_id, "sess_001", NOW)) + b"".join(map(dump_line, lines)))


def new_story(services: Services, instance_id: str, character: Character) -> None:
    """Begin a story without a background."""
    services.stories.create_instance(character, None, instance_id, NOW)


# --- the list of tools


@pytest.mark.anyio
async def test_the_list_of_tools_is_short_and_says_all_of_each(services: Services) -> None:
    async with at_the_desk(services) as desk:
        listed = await desk.client.list_tools()
        dumped = listed.model_dump_json(by_alias=True, exclude_none=True)
        assert max(counter.count(dumped) for counter in COUNTERS) < LIST_LIMIT
        for tool in desk.tools.values():
            assert tool.title
            assert tool.title != tool.name
            assert tool.description
            assert "\n" not in tool.description
            assert tool.annotations is not None
            hints = tool.annotations.model_dump(exclude={"title"})
            assert len(hints) == 4
            assert None not in hints.values()
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)


# --- replies


@pytest.mark.anyio
@pytest.mark.parametrize("kind", TEXTS)
async def test_a_giant_reply_is_cut_and_its_rest_is_read_by_the_cursor(
    services: Services, instance: str, kind: str
) -> None:
    reply = TEXTS[kind]
    services.models["rehearsal"] = ScriptedModel([ScriptedReply((reply,))])
    async with at_the_desk(services) as desk:
        turn = await desk.call("persona_chat", instance_id=instance, text="Tell me everything.")
        assert reply.startswith(turn["reply"])
        parts, cursor = [turn["reply"]], turn.get("cursor")
        while cursor is not None and len("".join(parts)) < len(reply):
            page = await desk.call("persona_read", instance_id=instance, cursor=cursor)
            parts.append(page["entries"][0]["content"])
            cursor = page["cursor"]
        assert "".join(parts) == reply


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_a_giant_reply_that_a_host_brings_is_answered_briefly(
    services: Services, instance: str, kind: str
) -> None:
    async with at_the_desk(services) as desk:
        begun = await desk.call(
            "persona_begin_turn", instance_id=instance, text="Tell me everything.", request_id="r1"
        )
        ended = await desk.call(
            "persona_end_turn", instance_id=instance, turn=begun["turn"], reply=TEXTS[kind]
        )
        assert TEXTS[kind].startswith(ended["reply"])
        assert ended["cursor"]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_giant_reasoning_is_cut_and_the_replies_are_read_whole(
    services: Services, instance: str, kind: str
) -> None:
    thoughts, reply = TEXTS[kind], f"So: {TEXTS[kind][:9_000]}"
    services.models["rehearsal"] = ScriptedModel([ScriptedReply((reply,), reasoning=(thoughts,))] * 3)
    asked = {"instance_id": instance, "reasoning": True}
    async with at_the_desk(services) as desk:
        for _ in range(3):
            turn = await desk.call("persona_chat", text="Tell me everything.", **asked)
            assert reply.startswith(turn["reply"])
            assert thoughts.startswith(turn["reasoning"].removesuffix("…"))
        entries = [entry for page in await desk.pages("persona_read", **asked) for entry in page["entries"]]
        said = "".join(entry["content"] for entry in entries if entry["role"] == "assistant")
        assert said == reply * 3
        assert sum("reasoning" in entry for entry in entries) == 3


@pytest.mark.anyio
async def test_a_repeated_call_whose_long_reply_is_cut_says_where_to_read_on(
    services: Services, instance: str
) -> None:
    call = {"instance_id": instance, "text": "Tell me everything.", "request_id": "r1"}
    async with at_the_desk(services) as desk:
        begun = await desk.call("persona_begin_turn", **call)
        await desk.call("persona_end_turn", instance_id=instance, turn=begun["turn"], reply=TEXTS["english"])
        again = await desk.raw("persona_begin_turn", **call)
        found = fields_of(again)
        assert found["reply"]
        assert len(found["reply"]) < len(TEXTS["english"])
        assert found.get("cursor")
        assert found["cursor"] in text_of(again)


@pytest.mark.anyio
async def test_a_reply_of_usual_length_stands_whole_in_both_copies(services: Services, instance: str) -> None:
    replies = {kind: text[:2_000] + "好。" for kind, text in TEXTS.items()}
    services.models["rehearsal"] = ScriptedModel([ScriptedReply((reply,)) for reply in replies.values()])
    async with at_the_desk(services) as desk:
        for kind, reply in replies.items():
            result = await desk.raw("persona_chat", instance_id=instance, text="Hello")
            assert fields_of(result)["reply"] == reply, kind
            assert reply in text_of(result), kind


# --- reading a session


def _shown(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Give a session's lines as reading shows them: the newest turn first, each turn in its order."""
    groups: list[list[dict[str, Any]]] = []
    notes: list[dict[str, Any]] = []
    number = None
    for line in lines:
        entry = line_fields(line)
        if isinstance(line, Summary):
            notes.append(entry)
        elif entry["turn"] == number and entry["role"] == "assistant":
            groups[-1] += [*notes, entry]
            notes = []
        else:
            groups.append([*notes, entry])
            notes, number = [], entry["turn"]
    return [entry for group in [*groups, *([notes] if notes else [])][::-1] for entry in group]


async def _check_reading(desk: Desk, lines: Sequence[Line], instance_id: str = "inst_001") -> None:
    """See that the pages of a session join to its lines."""
    joined: list[dict[str, Any]] = []
    for page in await desk.pages("persona_read", instance_id=instance_id):
        assert page["entries"] or not lines
        for entry in page["entries"]:
            first, last, total = entry.get("part", (0, len(entry["content"]), len(entry["content"])))
            assert last - first == len(entry["content"])
            if first:
                assert len(joined[-1]["content"]) == first
                joined[-1]["content"] += entry["content"]
            else:
                joined.append({"content": entry["content"]})
            assert last <= total
    assert [entry["content"] for entry in joined] == [entry["content"] for entry in _shown(lines)]


def _turns(*said: tuple[str, str], extra: Callable[[int], dict[str, Any]] = lambda turn: {}) -> list[Line]:
    return [
        line
        for turn, (user, reply) in enumerate(said, start=1)
        for line in (
            UserLine(user, turn, NOW, extra(turn)),
            AssistantLine(reply, turn, NOW, extra=extra(turn)),
        )
    ]


SESSIONS: dict[str, list[Line]] = {
    "nothing": [],
    "thousands of tiny turns": _turns(*[("a", "b")] * 2_000),
    "turns of empty texts": _turns(*[("", "")] * 500),
    "a giant question": _turns(("x", "y"), ((TEXTS["chinese"] * 8)[:200_000], "y"), ("x", "y")),
    "a giant answer": _turns(("x", "y"), ("x", (TEXTS["english"] * 8)[:300_000]), ("x", "y")),
    "only giants": _turns(*[(TEXTS[kind][:30_000], TEXTS[kind][:60_000]) for kind in ("chinese", "code")]),
    "usual turns": _turns(*[(TEXTS["english"][:300], TEXTS["chinese"][:700])] * 100),
    "many tries of one turn": [
        UserLine("x", 1, NOW),
        *(AssistantLine(TEXTS["english"][:500], 1, NOW, interrupted=True) for _ in range(400)),
    ],
    "summaries": [
        *(Summary(TEXTS["chinese"][:400]) for _ in range(300)),
        *_turns(("x", "y"), ("x", "y")),
        *(Summary(TEXTS["english"][:30_000]) for _ in range(3)),
    ],
    "big unknown fields": _turns(*[("x", "y")] * 30, extra=lambda turn: {"mood": TEXTS["chinese"][:50_000]}),
    "long request ids": _turns(*[("x", "y")] * 400, extra=lambda turn: {"request_id": f"{turn:0>128}"}),
    "odd request ids": _turns(
        *[("x", "y")] * 400, extra=lambda turn: {"request_id": TEXTS["rare characters"][turn:][:128]}
    ),
    "huge request ids": _turns(("x", "y"), extra=lambda turn: {"request_id": TEXTS["chinese"]}),
    "request ids that are none": _turns(("x", "y"), extra=lambda turn: {"request_id": [TEXTS["english"]]}),
    "a part of its own": _turns(("x", "y"), ("x", "y"), extra=lambda turn: {"part": "two"}),
    "a type of its own": _turns(("x", "y"), extra=lambda turn: {"type": TEXTS["english"]}),
    "a summary with a turn": [Summary("x", {"turn": TEXTS["english"], "role": "user"}), *_turns(("x", "y"))],
    "huge timestamps": [UserLine("x", 1, TEXTS["english"]), AssistantLine("y", 1, TEXTS["chinese"])],
    "half pairs": _turns(("\ud800", "a\udfffb"), ("😀\ud83d", "\ude00😀")),
}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SESSIONS)
async def test_the_pages_of_a_session_join_to_its_lines(services: Services, instance: str, kind: str) -> None:
    write_session(services, SESSIONS[kind])
    async with at_the_desk(services) as desk:
        if kind == "half pairs":
            assert len(await desk.pages("persona_read", instance_id=instance)) == 1
        else:
            await _check_reading(desk, SESSIONS[kind])


def _excerpt(kind: str, start: int, length: int) -> str:
    return TEXTS[kind][start : start + length]


Said = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.builds(
        _excerpt,
        st.sampled_from(("chinese", "english", "japanese", "code")),
        st.integers(0, 5_000),
        st.sampled_from((1, 50, 400, 3_000, 9_000, 40_000)),
    ),
)


@st.composite
def sessions(draw: st.DrawFn) -> list[Line]:
    """Give turns with any texts, retried, unanswered, with summaries between them, some many times."""
    lines: list[Line] = []
    for turn in range(1, draw(st.integers(1, 6)) + 1):
        lines += [Summary(text) for text in draw(st.lists(Said, max_size=1))]
        lines.append(UserLine(draw(Said), turn, NOW))
        lines += [AssistantLine(text, turn, NOW) for text in draw(st.lists(Said, max_size=2))]
    lines += [Summary(text) for text in draw(st.lists(Said, max_size=2))]
    tiny = _turns(*[("嗯", "…")] * draw(st.sampled_from((0, 0, 150, 400))))
    shift = len(tiny) // 2
    return [*tiny, *(_moved(line, shift) for line in lines)]


def _moved(line: Line, by: int) -> Line:
    match line:
        case UserLine():
            return UserLine(line.content, line.turn + by, NOW)
        case AssistantLine():
            return AssistantLine(line.content, line.turn + by, NOW)
        case _:
            return line


@settings(
    max_examples=10,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=sessions())
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
def test_the_pages_of_any_session_join_to_its_lines(
    services: Services, instance: str, lines: list[Line]
) -> None:
    async def read() -> None:
        async with at_the_desk(services) as desk:
            await _check_reading(desk, lines)

    write_session(services, lines)
    anyio.run(read)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "0",
        "sess_001",
        "sess_001:0",
        "sess_001:0:0",
        "sess_001:0:0:0:0",
        "sess_001:-1:0:0",
        "sess_001:2:0:0",
        "sess_001:1:2:0",
        "sess_001:1:9:3",
        "sess_001:1:0:6",
        "sess_001:1:0:999999999",
        "sess_001:1:0:9999999999",
        "sess_001:١:0:0",
        " sess_001:1:0:0",
        "sess_001:1:0:0\n",
        "sess_002:0:0:0",
        "../sess_001:0:0:0",
        "con:0:0:0",
    ],
)
async def test_a_session_is_not_read_by_a_cursor_that_leads_nowhere(
    services: Services, instance: str, cursor: str
) -> None:
    write_session(services, _turns(("Hello", "Hello yourself"), ("Again", "Go away")))
    async with at_the_desk(services) as desk:
        assert await desk.refused("persona_read", instance_id=instance, cursor=cursor)


# --- beginning a turn


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_a_prompt_near_its_limit_is_handed_over_within_the_budget(
    services: Services, kind: str
) -> None:
    count = COUNTERS[0].count
    piece = TEXTS[kind][: max(1, len(TEXTS[kind]) * 8_000 // count(TEXTS[kind]))]
    character = Character("char_giant", "Giant", piece)
    services.stories.save_character(character)
    new_story(services, "inst_giant", character)
    write_session(services, _turns(*[(piece[:300], piece)] * 8), "inst_giant")
    said = "The newest words are these."
    async with at_the_desk(services) as desk:
        begun = await desk.raw("persona_begin_turn", instance_id="inst_giant", text=said)
        found = fields_of(begun)
        assert found["status"] == "awaiting_reply"
        assert sent_words(found["prompt"]["messages"])[-1].endswith(said)
        assert said in text_of(begun)
        assert found["prompt"]["omitted_messages"] > 0
        shown = await desk.call("persona_prompt", instance_id="inst_giant")
        assert {section["name"] for section in shown["sections"]} >= {"base_persona", "conversation"}


@pytest.mark.anyio
async def test_a_host_is_told_when_the_users_own_words_are_not_whole(
    services: Services, instance: str
) -> None:
    said = TEXTS["english"][:100_000] + "the end."
    async with at_the_desk(services) as desk:
        begun = await desk.raw("persona_begin_turn", instance_id=instance, text=said)
        shown = sent_words(fields_of(begun)["prompt"]["messages"])[-1]
        assert shown.endswith("the end.")
        assert len(shown) < len(said)
        assert "persona_read" in text_of(begun)


# --- the library


@pytest.mark.anyio
async def test_thousands_of_entries_are_listed_once_each_in_their_order(
    services: Services, instance: str
) -> None:
    for number in range(1_000):
        entry_id = f"c{number * 7919 % 10_007:05}"
        services.stories.save_character(Character(entry_id, "某人", TEXTS["chinese"][number : number + 200]))
    for number in range(1_000):
        _copy_instance(services, f"i{number * 7919 % 10_007:05}-{'X9z' * 10}", instance)
    await _check_listing(services)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_entries_with_any_texts_are_listed_once_each_in_their_order(
    services: Services, instance: str, kind: str
) -> None:
    text = TEXTS[kind]
    for number in range(80):
        name, persona = text[number * 7 :][:200], text[number * 7 + 200 :][:1_000]
        services.stories.save_character(Character(f"c{number:05}-{'x' * 50}", name, persona))
        services.stories.save_background(Background(f"b{number:05}", name, persona))
    broken = services.stories.root / "characters" / "broken" / "definition.json"
    broken.parent.mkdir()
    broken.write_bytes(b"{" + b"[" * 5_000)
    await _check_listing(services)


async def _check_listing(services: Services) -> None:
    """See that following the cursors lists each entry once, in the order of their ids."""
    async with at_the_desk(services) as desk:
        pages = await desk.pages("persona_library")
        for kind in ("characters", "backgrounds", "instances"):
            shown = [entry[f"{kind[:-1]}_id"] for page in pages for entry in page.get(kind, [])]
            assert shown == _ids(services.stories.root / kind)


def _copy_instance(services: Services, instance_id: str, source: str) -> None:
    folder = services.stories.instances
    there = folder / instance_id
    (there / "sessions").mkdir(parents=True)
    for name in ("instance_state.json", "character_state.json"):
        there.joinpath(name).write_bytes(
            (folder / source / name).read_bytes().replace(f'"{source}"'.encode(), f'"{instance_id}"'.encode())
        )


def _ids(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and is_id(path.name))


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_the_pages_of_an_entry_join_to_the_whole(services: Services, kind: str) -> None:
    text = TEXTS[kind]
    services.stories.save_character(
        Character("char_giant", text[:150], text[:60_000], source={"extra": text[:9_000]})
    )
    outline = tuple(OutlinePoint(place, text[place : place + 1_000]) for place in range(1, 11))
    services.stories.save_background(Background("bg_giant", text[:150], text[:30_000], outline))
    async with at_the_desk(services) as desk:
        for listed, entry_id in (("characters", "char_giant"), ("backgrounds", "bg_giant")):
            pages = await desk.pages("persona_library", kind=listed, entry_id=entry_id)
            whole = json.loads("".join(page["entry"]["part"] for page in pages))
            file = "definition.json" if listed == "characters" else "background.json"
            stored = (services.stories.root / listed / entry_id / file).read_text(encoding="utf-8")
            assert whole == json.loads(stored)


@pytest.mark.anyio
async def test_an_entry_that_fits_is_shown_as_it_is(services: Services, instance: str) -> None:
    async with at_the_desk(services) as desk:
        for listed, entry_id in (("characters", "char_alserqi"), ("instances", instance)):
            result = await desk.raw("persona_library", kind=listed, entry_id=entry_id)
            found = fields_of(result)
            assert found["cursor"] is None
            assert found["entry"] == json.loads(text_of(result))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "call",
    [
        {"kind": "characters", "cursor": "x"},
        {"kind": "characters", "cursor": "instances:x"},
        {"kind": "characters", "cursor": "characters:../.."},
        {"kind": "characters", "cursor": "characters:" + "x" * 65},
        {"kind": "all", "cursor": "settings:x"},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "x"},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "-1"},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "999999"},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "9" * 5_000},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "١"},
        {"kind": "characters", "entry_id": "char_alserqi", "cursor": "characters:"},
    ],
)
async def test_the_library_is_not_read_by_a_cursor_that_leads_nowhere(
    services: Services, call: dict[str, str]
) -> None:
    async with at_the_desk(services) as desk:
        assert await desk.refused("persona_library", **call)


@pytest.mark.anyio
async def test_saving_what_has_a_giant_name_is_answered_briefly(services: Services) -> None:
    services.stories.save_character(Character("char_giant", TEXTS["chinese"], "Someone."))
    services.stories.save_background(Background("bg_giant", TEXTS["chinese"], "Somewhere."))
    async with at_the_desk(services) as desk:
        await desk.call("persona_save_character", character_id="char_giant", language="zh", replace=True)
        await desk.call(
            "persona_save_background", background_id="bg_giant", story_outline=["x"], replace=True
        )


@pytest.mark.anyio
async def test_an_instance_made_by_another_program_is_shown_briefly(
    services: Services, instance: str
) -> None:
    path = services.stories.instances / instance / "instance_state.json"
    state = json.loads(path.read_bytes())
    giant = {"created_at": TEXTS["chinese"], "background_id": TEXTS["english"], "mood": TEXTS["korean"]}
    path.write_text(json.dumps({**state, **giant}), encoding="utf-8")
    async with at_the_desk(services) as desk:
        await desk.call("persona_library")
        await desk.call("persona_library", kind="instances")
        await desk.pages("persona_library", kind="instances", entry_id=instance)
        await desk.call("persona_prompt", instance_id=instance)
        await desk.call("persona_begin_turn", instance_id=instance, text="Hello")
        await desk.call("persona_switch_background", instance_id=instance, background_id=None)


# --- the prompt


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_the_pages_of_a_section_join_to_the_whole(services: Services, kind: str) -> None:
    character = Character("char_giant", "Giant", TEXTS[kind])
    services.stories.save_character(character)
    new_story(services, "inst_giant", character)
    async with at_the_desk(services) as desk:
        pages = await desk.pages("persona_prompt", instance_id="inst_giant", section="base_persona")
        whole = "".join(section["text"] for page in pages for section in page["sections"])
        assert TEXTS[kind].strip() in whole
        assert len(pages) > 1


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_a_long_outline_is_shown_within_the_budget(services: Services, kind: str) -> None:
    text = TEXTS[kind]
    outline = tuple(
        OutlinePoint(place, f"point {place} {text[place * 9 :][:300]}") for place in range(1, 201)
    )
    world = Background("bg_giant", text[:150], text[:9_000], outline)
    services.stories.save_background(world)
    services.stories.create_instance(services.stories.character("char_alserqi"), world, "inst_giant", NOW)
    async with at_the_desk(services) as desk:
        shown = await desk.call("persona_prompt", instance_id="inst_giant", text=text[:50_000])
        assert [point["index"] for point in shown["outline"][:3]] == [1, 2, 3]
        pages = await desk.pages("persona_prompt", instance_id="inst_giant", section="story_outline")
        whole = "".join(section["text"] for page in pages for section in page["sections"])
        assert all(f"point {point.index} " in whole for point in outline)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "call",
    [
        {"cursor": "0"},
        {"cursor": "x"},
        {"section": "base_persona", "cursor": "x"},
        {"section": "base_persona", "cursor": "-1"},
        {"section": "base_persona", "cursor": "999999"},
        {"section": "base_persona", "cursor": "9" * 5_000},
        {"section": "nothing"},
    ],
)
async def test_a_prompt_is_not_read_by_a_cursor_that_leads_nowhere(
    services: Services, instance: str, call: dict[str, str]
) -> None:
    async with at_the_desk(services) as desk:
        assert await desk.refused("persona_prompt", instance_id=instance, **call)


# --- recall and settings


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOME)
async def test_giant_turns_are_recalled_within_the_budget(
    services: Services, instance: str, library: InMemoryLibrary, kind: str
) -> None:
    await library.write([_event(number, f"约定 promise {TEXTS[kind][:30_000]}") for number in range(1, 13)])
    async with at_the_desk(services) as desk:
        for query in ("约定 promise", f"约定 promise {TEXTS[kind][:9_900]}"):
            found = await desk.call("persona_recall", instance_id=instance, query=query, depth="turns")
            assert found["items"]


def _event(number: int, text: str) -> StoryEvent:
    return StoryEvent(
        event_id=f"turn_inst_001_sess_001_{number}",
        kind="turn",
        text=text,
        instance_id="inst_001",
        session_id="sess_001",
        index=number,
        character_id="char_alserqi",
        background_id="bg_wasteland",
        first_turn=number,
        last_turn=number,
        timestamp=NOW,
    )


@pytest.mark.anyio
async def test_settings_are_small_whatever_stands_in_their_file(services: Services, root: Path) -> None:
    path = root / "config.json"
    known = json.loads(path.read_bytes())
    path.write_text(json.dumps({**known, "mine": TEXTS["chinese"], "limits": TEXTS["korean"]}), "utf-8")
    async with at_the_desk(services) as desk:
        await desk.call("persona_settings")
        await desk.call("persona_settings", changes={"language": "en"})
        await desk.call("persona_settings", reset=True)


# --- every tool, once


@pytest.mark.anyio
async def test_each_tools_result_is_what_its_schema_says(services: Services, instance: str) -> None:
    async with at_the_desk(services) as desk:
        begun = await desk.call("persona_begin_turn", instance_id=instance, text="你好")
        await desk.call("persona_end_turn", instance_id=instance, turn=begun["turn"], reply="……谁？")
        await desk.call("persona_chat", instance_id=instance, text="是我", request_id="r1")
        services.models["rehearsal"] = ScriptedModel([ScriptedReply(), ScriptedReply(), "……好。"])
        await desk.call("persona_chat", instance_id=instance, text="？")
        await desk.call("persona_retry", instance_id=instance)
        await desk.call("persona_read", instance_id=instance)
        await desk.call("persona_library")
        await desk.call("persona_new_instance", character_id="char_alserqi")
        await desk.call("persona_save_character", character_id="char_new", base_persona="Someone.")
        await desk.call("persona_save_background", background_id="bg_new", world_setting="Somewhere.")
        await desk.call("persona_switch_background", instance_id=instance, background_id="bg_new")
        await desk.call("persona_recall", instance_id=instance, query="你好")
        await desk.call("persona_prompt", instance_id=instance)
        await desk.call("persona_settings")
        await desk.refused("persona_stop", instance_id=instance)
        await desk.call("persona_summarize", instance_id=instance)
        await desk.call("persona_update_memory", instance_id=instance)
        await desk.call("persona_update_memory", instance_id=instance, history=True)
        said = [{"role": "user", "content": "你好"}]
        await desk.call("memory_save_conversation", agent_id="a", messages=said)
        await desk.call("memory_save_conversation", agent_id="a", messages=said, learn=True)
        await desk.call("memory_edit", agent_id="a", action="add", content_type="mind", text="x")
        await desk.call("memory_get", agent_id="a")
        await desk.call("memory_get", agent_id="a", history=True)
        await desk.call("memory_search", agent_id="a", query="x")
        await desk.call("memory_forget", agent_id="a")
    await services.memories.close()
