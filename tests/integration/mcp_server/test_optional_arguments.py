"""Optional arguments that are null or empty count as left out, in every tool and at every depth.

Some frameworks mark every argument as required, so their models send something for each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import jsonschema
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client

from mcp_server.schemas import without_blanks
from mcp_server.server import TOOLSETS, build_server
from mcp_server.texts import DESCRIPTIONS
from tests.integration.mcp_server.test_arguments import LIKELY, USUAL, House, Mode, furnished
from tests.support.graph.turns import snapshot

BLANK = st.sampled_from((None, ""))
_RANDOM = re.compile(r"(?<![0-9a-z])[0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?(?![0-9a-z])")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with every tool."""
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        root = tmp_path_factory.mktemp("optional") / "data"
        services = furnished(root, "en")
        stack.callback(portal.call, services.memories.close)
        client = stack.enter_context(
            portal.wrap_async_context_manager(Client(build_server(services, TOOLSETS)))
        )
        clients: dict[Mode, Client] = {"auto": client, "legacy": client}
        yield House("en", root, portal, clients)


def outcome(house: House, tool: str, arguments: Json) -> tuple[str, bool, dict[str, str]]:
    """Call a tool; return what it said and what it wrote, without random ids, and undo it."""
    found = house.call("auto", tool, arguments)
    now = snapshot(house.root)
    house.restore(now)
    written = {name: content for name, content in now.items() if house.pristine.get(name) != content}
    return (
        _RANDOM.sub("#", found.wire),
        found.refused,
        {_RANDOM.sub("#", name): _RANDOM.sub("#", repr(content)) for name, content in written.items()},
    )


def optional(rule: Mapping[str, Any]) -> list[str]:
    """Name the fields of an object that may be left out."""
    return [name for name in rule["properties"] if name not in rule.get("required", [])]


def required(house: House, tool: str) -> Json:
    """Give plausible values for what a tool needs."""
    schema = house.tools[tool].input_schema
    rules = schema["properties"]
    return {name: plain_value(name, rules[name]) for name in schema.get("required", [])}


def plain_value(name: str, rule: Mapping[str, Any]) -> Any:
    """Give a plausible value of an argument."""
    if name in LIKELY:
        return LIKELY[name][0]
    if "enum" in rule:
        return rule["enum"][0]
    return {"string": "x", "integer": 1}.get(rule["type"]) if isinstance(rule["type"], str) else None


@pytest.mark.parametrize("tool", DESCRIPTIONS)
def test_blank_optional_argument_counts_as_left_out(house: House, tool: str) -> None:
    given = required(house, tool)
    expected = outcome(house, tool, given)
    names = optional(house.tools[tool].input_schema)
    calls = [{**given, name: blank} for name in names for blank in (None, "")]
    calls += [{**given, **dict.fromkeys(names)}, {**given, **dict.fromkeys(names, "")}]
    for call in calls:
        assert outcome(house, tool, call) == expected, call


@pytest.mark.parametrize("tool", DESCRIPTIONS)
def test_schema_names_a_default_or_allows_null_for_every_optional_argument(house: House, tool: str) -> None:
    schema = house.tools[tool].input_schema
    blanks = {name: schema["properties"][name].get("default") for name in optional(schema)}
    jsonschema.validate({**required(house, tool), **blanks}, schema)
    said = outcome(house, tool, {**required(house, tool), **blanks})
    assert said == outcome(house, tool, required(house, tool))


@pytest.mark.parametrize("tool", DESCRIPTIONS)
def test_required_text_still_refuses_nothing(house: House, tool: str) -> None:
    given = required(house, tool)
    rules = house.tools[tool].input_schema["properties"]
    for name in given:
        if rules[name].get("type") == "string":
            said, refused, written = outcome(house, tool, {**given, name: ""})
            assert refused, (tool, name, said)
            assert not written
            assert outcome(house, tool, {**given, name: None})[1]


@st.composite
def filled(draw: st.DrawFn, rule: Mapping[str, Any]) -> tuple[Any, Any]:
    """Draw a value of a schema, once with optional fields left out and once with blanks in their place."""
    if "anyOf" in rule:
        return draw(filled(rule["anyOf"][0]))
    kinds: str | list[str] = rule["type"]
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "array":
        items = draw(st.lists(filled(rule["items"]), max_size=3))
        return [short for short, _ in items], [long for _, long in items]
    if kind != "object" or "properties" not in rule:
        value = draw(st.sampled_from(rule.get("enum", ("x", 0, False, [], {"a": None, "b": ""}))))
        return value, value
    short: Json = {}
    long: Json = {}
    for name, part in rule["properties"].items():
        if name in rule.get("required", []) or draw(st.booleans()):
            short[name], long[name] = draw(filled(part))
        else:
            long[name] = draw(BLANK)
    return short, long


@pytest.mark.parametrize("tool", DESCRIPTIONS)
@settings(USUAL, max_examples=30)
@given(data=st.data())
def test_blanks_are_dropped_at_every_depth_and_nothing_else_is(
    house: House, tool: str, data: st.DataObject
) -> None:
    schema = house.tools[tool].input_schema
    short, long = data.draw(filled(schema))
    assert without_blanks(long, schema) == short
    assert without_blanks(short, schema) == short


def test_blank_fields_of_a_case_change_nothing(house: House) -> None:
    case = {"name": "a", "input": "b", "expected_output": "c"}
    blanks = {"id": "", "category": None, "description": "", "remove": None}
    base: Json = {"name": "Greetings", "purpose": "talk"}
    short = outcome(house, "baseline_save", {**base, "cases": [case]})
    assert not short[1], short
    assert outcome(house, "baseline_save", {**base, "cases": [{**case, **blanks}]}) == short
    assert outcome(house, "baseline_save", {**base, "cases": json.dumps([{**case, **blanks}])}) == short


def test_setting_can_be_given_as_json_text_and_emptied(house: House) -> None:
    named = house.call("auto", "persona_settings", {"changes": '{"player_name": "Ann"}', "reset": None})
    assert '"preferences.player_name":"Ann"' in named.wire
    emptied = house.call("auto", "persona_settings", {"changes": {"player_name": ""}})
    assert '"preferences.player_name":""' in emptied.wire
    house.restore(snapshot(house.root))
