"""What a model is asked for in JSON is what is read: schemas and readers agree, and providers can enforce them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.dialogue import whole_number_schema
from tests.support.answer_schemas import JSON_QUESTIONS, JsonQuestion

STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"),
    *("minItems", "maxItems", "minimum", "maximum"),
}
"""What OpenAI's strict mode takes, of what we use."""
TEXT_LENGTHS = {"minLength", "maxLength"}
"""Left out on the way to providers that do not take them."""

each_question = pytest.mark.parametrize("question", JSON_QUESTIONS.values(), ids=JSON_QUESTIONS)


def validate(answer: object, schema: Mapping[str, Any]) -> None:
    cast("Any", jsonschema).validate(answer, schema)


def answers_to(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Make values that fit a schema; texts and lists mostly short, as Hypothesis likes them."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([answers_to(kind) for kind in schema["anyOf"]])
    match schema["type"]:
        case "object":
            return st.fixed_dictionaries(
                {name: answers_to(part) for name, part in schema["properties"].items()}
            )
        case "array":
            least = schema.get("minItems", 0)
            most = min(schema.get("maxItems", 4), least + 4)
            return st.lists(answers_to(schema["items"]), min_size=least, max_size=most)
        case "string":
            least = schema.get("minLength", 0)
            words = st.sampled_from(
                ["She waits. ", "他等待。", "I am sorry, I cannot help. ", "trust 80% ", "=== x"]
            )
            said = st.one_of(st.text(min_size=least, max_size=30), st.lists(words, min_size=1).map("".join))
            return said.map(lambda text: text[: schema.get("maxLength")])
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case kind:
            raise AssertionError(f"no values for {kind}")


def parts_of(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    if "items" in schema:
        inner.append(schema["items"])
    for part in inner:
        yield from parts_of(part)


@each_question
def test_an_answer_that_is_taken_fits_the_schema(question: JsonQuestion) -> None:
    question.read(json.dumps(question.sample))
    validate(question.sample, question.schema.schema)


@each_question
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_an_answer_in_the_schemas_form_is_refused_only_for_what_no_schema_can_say(
    question: JsonQuestion, data: st.DataObject
) -> None:
    answer = data.draw(answers_to(question.schema.schema))
    validate(answer, question.schema.schema)
    reason = ""
    try:
        question.read(json.dumps(answer))
    except ValueError as error:
        reason = str(error)
    assert not reason or re.search(question.beyond, reason), reason


@each_question
def test_schemas_keep_to_what_strict_mode_takes(question: JsonQuestion) -> None:
    schema = question.schema.schema
    assert re.fullmatch(r"[A-Za-z0-9_]{1,64}", question.schema.name)
    assert schema["type"] == "object"
    parts = list(parts_of(schema))
    assert {name for part in parts for name in part} <= STRICT_KEYWORDS | TEXT_LENGTHS
    for part in parts:
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
    assert sum(len(part.get("enum", ())) for part in parts) <= 1_000


@each_question
def test_kinds_of_objects_differ_in_their_first_field(question: JsonQuestion) -> None:
    for part in parts_of(question.schema.schema):
        firsts = [next(iter(kind["properties"].items())) for kind in part.get("anyOf", ())]
        assert len({json.dumps(first) for first in firsts}) == len(firsts)


@given(st.sets(st.integers(-50, 400), max_size=200), st.integers(-60, 410))
def test_whole_numbers_allow_those_given_and_reach_no_further(allowed: set[int], number: int) -> None:
    schema = whole_number_schema(allowed)
    fits = cast("Any", jsonschema).Draft202012Validator(schema).is_valid(number)
    if not allowed:
        assert fits
    elif len(allowed) <= 100:
        assert fits == (number in allowed)
    else:
        assert fits == (min(allowed) <= number <= max(allowed))
