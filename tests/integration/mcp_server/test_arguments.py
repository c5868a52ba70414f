"""Property tests: any input from a client gets an actionable response and leaves nothing broken.

Arguments are generated from each tool's own schema: valid, missing, of the wrong type, oversized and hostile.
One data root per language serves all examples; changes by a successful call are reverted.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
)

from mcp_server.resources import BACKGROUND, CHARACTER, INSTANCE, PROMPT, SESSION
from mcp_server.results import well_formed
from mcp_server.server import build_server
from mcp_server.texts import DESCRIPTIONS
from personalab.retrieval.embedders import open_embedder
from personalab.retrieval.memory.store import DatabaseMemoryStore, open_backend
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.transcript import AssistantLine, Metadata, UserLine, dump_line
from personalab.testing.in_memory import InMemoryLibrary
from personalab.testing.scripted import ScriptedModel
from personalab.texts import Language, languages
from tests.conftest import FULL, NOW, PROJECT
from tests.support.graph.turns import snapshot

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
KEY = "sk-test-0badc0de0badc0de0badc0de"
TOKEN = "token-0f-the-h0use-never-t0ld"
LONGEST_ERROR = 3_000
pytestmark = pytest.mark.filterwarnings(
    "ignore:Generating overly large repr"
)  # some examples are meant to be
TOLD_NEVER = ("Traceback", 'File "', "site-packages", str(PROJECT), KEY, TOKEN)

# --- a server in each language


def fields(result: CallToolResult | None) -> dict[str, Any]:
    """Give a result's structured content."""
    return (result.structured_content if result else None) or {}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: the words of an error, or a success."""

    text: str
    refused: bool
    wire: str
    """The answer as a wire would carry it."""
    result: CallToolResult | None = None

    @property
    def turn_failed(self) -> bool:
        """Whether a turn was played whose reply failed: that is an error, too, and stands in the file."""
        found = fields(self.result)
        return self.refused and found.get("status") == "error" and found.get("turn") is not None


class House:
    """A server on a data root, with a client of each era."""

    def __init__(
        self, language: Language, root: Path, portal: BlockingPortal, clients: dict[Mode, Client]
    ) -> None:
        self.language = language
        self.root = root
        self.pristine = snapshot(root)
        self.tools = {tool.name: tool for tool in portal.call(clients["auto"].list_tools).tools}
        self._portal = portal
        self._clients = clients

    def __repr__(self) -> str:
        return f"House({self.language!r})"

    def call(self, mode: Mode, tool: str, arguments: dict[str, Any]) -> Outcome:
        """Call a tool."""

        async def run() -> Outcome:
            result = await self._clients[mode].call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
            wire = result.model_dump_json(by_alias=True, exclude_none=True)
            return Outcome(text, bool(result.is_error), wire, result)

        return self._answer(run)

    def ask(self, mode: Mode, what: Callable[[Client], Any]) -> Outcome:
        """Ask for anything else that a client may ask for."""

        async def run() -> Outcome:
            result = await what(self._clients[mode])
            wire = result.model_dump_json(by_alias=True, exclude_none=True)
            return Outcome(wire, False, wire)

        return self._answer(run)

    def _answer(self, run: Callable[[], Any]) -> Outcome:
        try:
            return self._portal.call(run)
        except MCPError as error:
            found = error.error
        assert found.code == INVALID_PARAMS
        return Outcome(found.message, True, found.model_dump_json())

    def restore(self, now: Mapping[str, bytes]) -> None:
        """Put back what a call wrote."""
        for name in now.keys() - self.pristine.keys():
            (self.root / name).unlink()
        for name, content in self.pristine.items():
            if now.get(name) != content:
                (self.root / name).write_bytes(content)
        for folder in ("characters", "backgrounds", "instances"):
            for entry in (self.root / folder).iterdir():
                if not any(name.startswith(f"{folder}/{entry.name}/") for name in self.pristine):
                    _remove_empty(entry)
        for path in sorted((self.root / "workspace").rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _remove_empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def furnished(root: Path, language: Language, **environment: str) -> Services:
    """Make a data root with a story of two turns; the second waits for its reply."""
    given = {"PERSONALAB_DATA": str(root), "PERSONALAB_BUSY_SECONDS": "1", "PERSONALAB_MODEL": "rehearsal"}
    secret = {"OPENAI_API_KEY": KEY, "PERSONALAB_TOKEN": TOKEN}
    services = open_services(read_settings({**given, **secret, **environment}))
    services.now = lambda: NOW
    services.__dict__["library"] = InMemoryLibrary()
    memory = open_backend(None, root.parent / "memory")  # beside the root, which is put back after each call
    services.__dict__["memories"] = DatabaseMemoryStore(
        memory, lambda: open_embedder("offline", api_key=None, base_url=None)
    )
    services.models["rehearsal"] = ScriptedModel(["……嗯。"], loop=True)
    services.preferences.change({"language": language})
    services.lab_sessions.settings()  # made when they are first read
    character = services.stories.character("char_alserqi")
    services.stories.create_instance(character, services.stories.background("bg_wasteland"), "inst_001", NOW)
    said = (
        Metadata("inst_001", "sess_001", NOW),
        UserLine("你好", 1, NOW),
        AssistantLine("……谁？", 1, NOW),
        UserLine("是我", 2, NOW),
    )
    services.stories.session_path("inst_001", "sess_001").write_bytes(b"".join(map(dump_line, said)))
    return services


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Language, House]]:
    """A server in each language, for all examples."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        made: dict[Language, House] = {}
        for language in languages():
            root = tmp_path_factory.mktemp(language) / "data"
            services = furnished(root, language)
            stack.callback(portal.call, services.memories.close)
            server = build_server(services, ("chat", "memory", "archive", "lab"))
            clients: dict[Mode, Client] = {
                mode: stack.enter_context(portal.wrap_async_context_manager(Client(server, mode=mode)))
                for mode in MODES
            }
            made[language] = House(language, root, portal, clients)
        yield made


# --- what must hold

_PATH = re.compile(r"(?<![\w.])/(?:[\w.-]+/)+[\w.-]+")
_PLACE = re.compile(r"\{\w+\}")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ENGLISH = re.compile(r"[A-Za-z]+,? [a-z]+")


def check_words(house: House, text: str, asked: object) -> None:
    """See that an error is a bounded sentence in the reader's language that tells nothing it should not."""
    assert len(text) < LONGEST_ERROR
    assert re.search(_CHINESE if house.language == "zh" else _ENGLISH, text), text
    assert "pydantic" not in text.lower()
    assert "内部错误" not in text
    assert "internal error" not in text
    given = flat(asked)
    for place in (*_PATH.findall(text), *_PLACE.findall(text)):
        assert place in given, f"{place} in {text}"


def check(house: House, outcome: Outcome, asked: object) -> None:
    """See what must hold of every answer, and of the data root after it."""
    now = snapshot(house.root)
    try:
        outcome.wire.encode("utf-8")
        assert outcome.text.strip()
        for never in (*TOLD_NEVER, str(house.root)):
            assert never not in outcome.wire
        if outcome.refused:
            check_words(house, outcome.text, asked)
            assert outcome.turn_failed or now == house.pristine
    finally:
        if now != house.pristine:
            house.restore(now)


def flat(value: object) -> str:
    """Give every text within a value."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {flat(part)}" for key, part in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (any JSON)
    if isinstance(value, list | tuple):
        return " ".join(flat(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] (any JSON)
    return value if isinstance(value, str) else ""


# --- what is sent


def nested(depth: int) -> list[Any]:
    """Put a list into a list into a list."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


HOSTILE: tuple[str, ...] = (
    "",
    " ",
    "\n\t ",
    "../inst_001",
    "..",
    ".",
    "../../../../etc/passwd",
    "/etc/passwd",
    "inst_001/../inst_001",
    "inst_001/",
    "inst_001\x00",
    "\x00",
    "con",
    "NUL",
    "COM1",
    "C:\\Windows\\System32",
    "\\\\host\\share",
    "..\\..\\x",
    "inst_001\n",
    "\x1b[31mred\x07",
    "\u202e\u2066txt.exe",
    "\ufeffinst_001",
    "ｉｎｓｔ_001",
    "\ud800",
    "a\udfff\ud800b",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{x}{0!r}{self}",
    "%s%n%(x)s",
    "${HOME} $(id) `id`",
    "'; DROP TABLE x; --",
    "null",
    "true",
    "1e999",
    "[]",
    "{}",
    '{"\\ud800": 1}',
    '{"language": "\\ud800"}',
    '["\\ud800"]',
    '[{"index": 1}]',
    '{"a": {"b": [1, 2, {"c": null}]}}',
    "[" * 900 + "]" * 900,
    "[" * 100_000,
    "9" * 4_200,
    "9" * 100_000,
    "sess_001:0:0:0",
    "sess_001:999999999:0:0",
    "sess_001:-1:0:0",
    "sess_001:٣:0:0",
    "characters:../..",
    "😀" * 30,
)
HUGE: tuple[str, ...] = (
    "x" * 100_001,
    "汉" * 120_000,
    "a b " * 60_000,
    "\n" * 200_001,
    "\ud800" * 100_001,
    "../" * 50_000,
)
NUMBERS = (0, -1, 3, 2**31, 2**63, -(2**64), 10**400, 10**4_000, 1.5, 1e308, float("inf"), float("nan"))
OTHER: tuple[Any, ...] = (
    None,
    True,
    False,
    *NUMBERS,
    [],
    {},
    [None],
    ["x", 1],
    [["x"]],
    {"x": 1},
    {"language": "xx"},
    {"language": nested(100)},
    {"max_total_tokens": 10**4_000},
    {"x" * 100_001: 1},
    {"../../etc/passwd": "/etc/passwd"},
    nested(100),
    ["x"] * 10_000,
    {str(number): number for number in range(2_000)},
)
LIKELY: dict[str, tuple[Any, ...]] = {
    "instance_id": ("inst_001", "inst_002"),
    "character_id": ("char_alserqi", "char_x"),
    "background_id": ("bg_wasteland", "bg_x"),
    "session_id": ("sess_001", "sess_002"),
    "entry_id": ("char_alserqi", "inst_001"),
    "cursor": ("sess_001:0:0:0", "characters:", "0"),
    "section": ("base_persona", "conversation"),
    "turn": (2, 1),
    "agent_id": ("char_alserqi", "someone"),
    "user_id": ("player", "anna"),
    "messages": ([{"role": "user", "content": "你好"}], []),
    "content_types": (["mind"], []),
    "answer": ("{}", '{"points": []}'),
    "skill_id": ("fa1c653c", "2abeadd6"),
    "asset_id": ("fa1c653c", "00ebb45f"),
    "baseline_id": ("00ebb45f", "92e110b0"),
    "skill_ids": (["fa1c653c"], ["fa1c653c", "8e780218"]),
    "baseline_ids": (["00ebb45f"], []),
    "case_id": ("case_001", "case_999"),
    "cases": ([{"name": "a", "input": "b", "expected_output": "c"}], [{"id": "case_001", "remove": True}]),
    "purpose": ("talk", "persona"),
    "version": ("v1", "v2"),
}
"""What a caller would give; anything else follows from the schema."""


def valid(name: str, rule: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Give values that an argument's schema allows."""
    if name in LIKELY:
        return st.sampled_from(LIKELY[name])
    if "enum" in rule:
        return st.sampled_from(rule["enum"])
    if "anyOf" in rule:
        return st.one_of(*(valid("", arm) for arm in rule["anyOf"]))
    kind = rule.get("type")
    if isinstance(kind, list):
        return st.one_of(*(valid("", {**rule, "type": one}) for one in kind))  # pyright: ignore[reportUnknownVariableType] (any JSON)
    match kind:
        case "string":
            return st.text(max_size=20)
        case "integer":
            return st.integers(-5, 5)
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(valid("", rule["items"]), max_size=3)
        case "object":
            names = st.sampled_from(("language", "limits.max_total_tokens", "durability", "nothing"))
            return st.dictionaries(names, st.sampled_from(("en", "fsync", 20_000, True)), max_size=2)
        case _:
            return st.none()


def wrong() -> st.SearchStrategy[Any]:
    """Give values that hardly any argument can use."""
    return st.one_of(
        st.sampled_from(HOSTILE),
        st.sampled_from(OTHER),
        st.sampled_from(HUGE),
        st.text(max_size=80),
        st.text(st.characters(categories=("Cc", "Cf", "Cs", "Co", "Cn")), min_size=1, max_size=80),
    )


@st.composite
def arguments_of(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give arguments of which none, some or all are wrong."""
    rules: dict[str, dict[str, Any]] = schema.get("properties", {})
    needed = schema.get("required", [])
    found: dict[str, Any] = {
        name: draw(valid(name, rule)) for name, rule in rules.items() if name in needed or draw(st.booleans())
    }
    for flaw in draw(st.lists(st.sampled_from(("missing", "wrong", "wrong", "unknown")), max_size=3)):
        if flaw == "missing" and found:
            found.pop(draw(st.sampled_from(sorted(found))))
        elif flaw == "wrong" and rules:
            found[draw(st.sampled_from(sorted(rules)))] = draw(wrong())
        else:
            names = st.sampled_from(("", "x", "self", "ctx", "__class__", "{x}", "x" * 100_001, "参数\n\x00"))
            found[draw(names)] = draw(wrong())
    return found


USUAL = settings(
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
STRIDE = 1 if FULL else 5
"""A full run gives every argument all texts, others each a fifth of them, so that each text is given to some."""
LANGUAGE = st.sampled_from(languages())
MODE = st.sampled_from(MODES)


@pytest.mark.parametrize("tool", DESCRIPTIONS)
@settings(USUAL, max_examples=40)
@given(data=st.data(), language=LANGUAGE, mode=MODE)
def test_whatever_a_tool_is_given_its_answer_can_be_acted_on(
    houses: dict[Language, House], tool: str, data: st.DataObject, language: Language, mode: Mode
) -> None:
    house = houses[language]
    arguments = data.draw(arguments_of(house.tools[tool].input_schema))
    check(house, house.call(mode, tool, arguments), arguments)


def test_hostile_texts_for_each_argument_of_each_tool_are_answered_in_words(
    houses: dict[Language, House],
) -> None:
    asked = itertools.cycle(itertools.product(houses.values(), MODES))
    starts = itertools.cycle(range(STRIDE))
    for tool, listed in houses["zh"].tools.items():
        usual = {name: LIKELY.get(name, ("x",))[0] for name in listed.input_schema.get("required", [])}
        for name in listed.input_schema["properties"]:
            texts = HOSTILE if name in LIKELY else HOSTILE[::3]
            for text in texts[next(starts) % len(texts) :: STRIDE]:
                (house, mode), arguments = next(asked), {**usual, name: text}
                check(house, house.call(mode, tool, arguments), arguments)


def _can_be_a_name(name: object) -> bool:
    """Tell whether the client itself can send a name: it writes it into a header."""
    return isinstance(name, str) and well_formed(name) == name


@settings(USUAL, max_examples=40)
@given(name=wrong().filter(_can_be_a_name), language=LANGUAGE, mode=MODE)
def test_a_tool_that_is_not_there_is_named_in_the_error(
    houses: dict[Language, House], name: str, language: Language, mode: Mode
) -> None:
    outcome = houses[language].call(mode, name, {})
    assert outcome.refused
    assert "persona_library" in outcome.text
    check(houses[language], outcome, name)


# --- prompts, resources, completion


@settings(USUAL, max_examples=60)
@given(data=st.data(), language=LANGUAGE, mode=MODE)
def test_whatever_a_prompt_is_given_its_answer_can_be_acted_on(
    houses: dict[Language, House], data: st.DataObject, language: Language, mode: Mode
) -> None:
    name = data.draw(st.sampled_from(("play", "recap", "play", "recap", "nothing", "../play", "x" * 100_001)))
    names: st.SearchStrategy[str] = st.sampled_from(
        ("instance_id", "character_id", "background_id", "x", "x" * 100_001)
    )
    values: st.SearchStrategy[str] = st.one_of(
        st.sampled_from(("inst_001", "char_alserqi", "bg_wasteland")), st.sampled_from(HOSTILE + HUGE)
    )
    arguments: dict[str, str] = data.draw(st.dictionaries(names, values, max_size=3))
    outcome = houses[language].ask(mode, lambda client: client.get_prompt(name, arguments))
    check(houses[language], outcome, [name, arguments])


ADDRESSES = (
    *(INSTANCE, SESSION, PROMPT, CHARACTER, BACKGROUND),
    "persona://{instance_id}",
    "file://{instance_id}",
    "ui://personalab/{instance_id}",
    "{instance_id}",
)


@settings(USUAL, max_examples=80)
@given(data=st.data(), language=LANGUAGE, mode=MODE)
def test_whatever_address_is_read_the_answer_can_be_acted_on(
    houses: dict[Language, House], data: st.DataObject, language: Language, mode: Mode
) -> None:
    part = st.one_of(
        st.sampled_from(
            ("inst_001", "sess_001", "char_alserqi", "%2e%2e%2fx", "%00", "%ff", "a/b/c", "?a#b")
        ),
        st.sampled_from([text for text in HOSTILE + HUGE if well_formed(text) == text]),
    )
    address = re.sub(r"\{\w+\}", lambda _: data.draw(part), data.draw(st.sampled_from(ADDRESSES)))
    outcome = houses[language].ask(mode, lambda client: client.read_resource(address))
    check(houses[language], outcome, address)


@settings(USUAL, max_examples=60)
@given(data=st.data(), language=LANGUAGE, mode=MODE)
def test_whatever_is_to_be_completed_the_answer_is_a_list_of_ids(
    houses: dict[Language, House], data: st.DataObject, language: Language, mode: Mode
) -> None:
    text = st.one_of(st.sampled_from(("", "inst", "char_", "sess_")), st.sampled_from(HOSTILE + HUGE))
    name = data.draw(st.one_of(st.sampled_from(("instance_id", "session_id", "character_id")), text))
    ref = data.draw(
        st.one_of(
            st.sampled_from(("play", "recap", "x")).map(
                lambda name: PromptReference(type="ref/prompt", name=name)
            ),
            st.one_of(st.sampled_from(ADDRESSES), text).map(
                lambda uri: ResourceTemplateReference(type="ref/resource", uri=uri)
            ),
        )
    )
    argument, known = {"name": name, "value": data.draw(text)}, {"instance_id": data.draw(text)}
    outcome = houses[language].ask(mode, lambda client: client.complete(ref, argument, known))
    check(houses[language], outcome, [name, argument, known])


# --- what was found this way, each by itself


@pytest.mark.parametrize("text", ['{"name": "Al"}', "[1, 2]", "null", "{}", "[]"])
@pytest.mark.parametrize(
    ("tool", "name"),
    [("persona_save_character", "base_persona"), ("persona_save_background", "world_setting")],
)
def test_a_text_that_happens_to_be_json_is_kept_as_it_was_given(
    houses: dict[Language, House], tool: str, name: str, text: str
) -> None:
    house = houses["en"]
    entry = "character_id" if "character" in tool else "background_id"
    outcome = house.call("auto", tool, {entry: "x_json", name: text})
    kept = snapshot(house.root)
    house.restore(kept)
    assert not outcome.refused, outcome.text
    found = [json.loads(content) for path, content in kept.items() if "x_json" in path]
    assert [entry[name] for entry in found] == [text]


@pytest.mark.parametrize("request_id", ["null", "[]", '{"call": 7}'])
def test_a_request_id_that_happens_to_be_json_makes_one_turn(
    houses: dict[Language, House], request_id: str
) -> None:
    house = houses["en"]
    call = {"instance_id": "inst_001", "text": "Again?", "request_id": request_id}
    first, second = house.call("auto", "persona_chat", call), house.call("auto", "persona_chat", call)
    house.restore(snapshot(house.root))
    assert not first.refused, first.text
    assert fields(second.result)["turn"] == fields(first.result)["turn"]


def test_a_background_called_null_is_one_like_any_other(houses: dict[Language, House]) -> None:
    house = houses["en"]
    house.call("auto", "persona_save_background", {"background_id": "null", "world_setting": "Nothing."})
    call = {"instance_id": "inst_001", "background_id": "null"}
    moved = house.call("auto", "persona_switch_background", call)
    house.restore(snapshot(house.root))
    assert fields(moved.result)["background_id"] == "null"


@pytest.mark.parametrize("turn", [10**400, 10**4_000, -(10**4_000)], ids=["long", "longer", "below"])
def test_a_turn_of_thousands_of_digits_is_refused_in_a_few_words(
    houses: dict[Language, House], turn: int
) -> None:
    call = {"instance_id": "inst_001", "turn": turn, "reply": "x"}
    outcome = houses["en"].call("auto", "persona_end_turn", call)
    assert outcome.refused
    assert len(outcome.text) < 400
    check(houses["en"], outcome, call)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("address", ["persona://" + "x" * 100_000, "file:///etc/passwd", "persona://x/../y"])
def test_an_address_there_is_none_of_is_refused_in_a_few_words_of_the_readers_language(
    houses: dict[Language, House], language: Language, address: str
) -> None:
    outcome = houses[language].ask("auto", lambda client: client.read_resource(address))
    assert outcome.refused
    assert len(outcome.text) < 400
    check(houses[language], outcome, address)


@pytest.mark.parametrize("model", ["local:{folder}/my models/secret.gguf", "scripted:{folder}/secret.json"])
@pytest.mark.parametrize("kind", ["missing", "broken"])
def test_a_model_that_cannot_be_opened_does_not_tell_where_it_was_looked_for(
    tmp_path: Path, model: str, kind: str
) -> None:
    folder = tmp_path / "elsewhere"
    named = model.format(folder=folder)
    if kind == "broken":
        path = Path(named.partition(":")[2])
        path.parent.mkdir(parents=True)
        path.write_bytes(b"{")
    server = build_server(furnished(tmp_path / "data", "en", PERSONALAB_MODEL=named))

    async def chat() -> str:
        async with Client(server) as client:
            result = await client.call_tool("persona_chat", {"instance_id": "inst_001", "text": "Hello?"})
            return result.model_dump_json(by_alias=True)

    told = anyio.run(chat)
    assert '"isError":true' in told
    assert str(folder) not in told


@pytest.mark.parametrize("mode", MODES)
def test_half_a_pair_hidden_in_json_does_not_end_the_server_on_stdio(tmp_path: Path, mode: Mode) -> None:
    environment = {"PERSONALAB_DATA": str(tmp_path / "data"), "PERSONALAB_MODEL": "rehearsal"}
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_server"], env=environment, cwd=PROJECT
    )

    async def settle() -> list[bool]:
        with (tmp_path / "log").open("w", encoding="utf-8") as log:
            async with Client(stdio_client(program, errlog=log), mode=mode) as client:
                with anyio.fail_after(60):
                    calls: list[dict[str, Any]] = [{"changes": '{"\\ud800": 1}'}, {}]
                    return [
                        bool((await client.call_tool("persona_settings", call)).is_error) for call in calls
                    ]

    assert anyio.run(settle) == [True, False]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_what_a_clients_model_is_asked_can_go_over_a_wire(tmp_path: Path, mode: Mode) -> None:
    services = furnished(tmp_path / "data", "en", PERSONALAB_MODEL="", OPENAI_API_KEY="")
    asked: list[CreateMessageRequestParams] = []

    async def write(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
        asked.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(text="Yes."), model="client")

    async def chat() -> None:
        async with Client(build_server(services), mode=mode, sampling_callback=write) as client:
            outline = {
                "background_id": "bg_half",
                "world_setting": "A world.",
                "story_outline": '["\\ud800"]',
            }
            await client.call_tool("persona_save_background", outline)
            move = {"instance_id": "inst_001", "background_id": "bg_half"}
            await client.call_tool("persona_switch_background", move)
            await client.call_tool("persona_chat", {"instance_id": "inst_001", "text": "Hello?"})

    anyio.run(chat)
    assert len(asked) == 1
    asked[0].model_dump_json(by_alias=True)
