"""Every error and reason that the code base raises has words, and the parameters that they need."""

from __future__ import annotations

import ast
import copy
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from personalab.errors import (
    BadRecord,
    Busy,
    Invalid,
    PersonaLabError,
    ProviderError,
    Reason,
    as_reason,
    json_reason,
    reason_of,
    worded,
)
from personalab.i18n import FALLBACK, Section, languages
from personalab.lab.calling import plain_params, restored_params, warning_text
from personalab.texts import REASONS, TEXTS
from personalab.texts.actions import ACTIONS
from tests.support.catalogues import ACTION, PLACEHOLDER, texts_of

PROJECT = Path(__file__).resolve().parents[2]
PARTS = ("personalab", "graph", "nodes", "mcp_server", "web", "cli")
ERRORS = ("PersonaLabError", "UserError", "NotFound", "BadRecord", "Busy", "StorageError", "ProviderError")


def _files() -> Iterator[Path]:
    for part in PARTS:
        yield from (PROJECT / part).rglob("*.py")


def _calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Find what is raised, with the place and the name of what raises it."""
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                yield f"{path.relative_to(PROJECT)}:{node.lineno}", node.func.id, node


def _codes(argument: ast.expr) -> list[str]:
    match argument:
        case ast.Constant(value=str(code)):
            return [code]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_codes(body), *_codes(orelse)]
        case _:
            return []


def _given(call: ast.Call) -> set[str] | None:
    """Name the parameters that a call gives; ``None`` where it hands on some that it does not name."""
    names = [keyword.arg for keyword in call.keywords]
    return None if None in names else {name for name in names if name is not None}


def _needed(template: str) -> set[str]:
    actions = [
        actions.templates(FALLBACK)[name] for name in ACTION.findall(template) for actions in ACTIONS.values()
    ]
    return {name for text in (template, *actions) for name in PLACEHOLDER.findall(text)}


def _wrong(section: Section, makers: tuple[str, ...]) -> tuple[list[str], int]:
    wrong: list[str] = []
    count = 0
    for place, name, call in _calls():
        if name not in makers:
            continue
        for code in _codes(call.args[0]):
            count += 1
            given = _given(call)
            if (template := section.template(code, FALLBACK)) is None:
                wrong.append(f"{place}: there is no text for {code}")
            elif given is not None and (missing := _needed(template) - given):
                wrong.append(f"{place}: {code} lacks {sorted(missing)}")
    return wrong, count


SHORTER = {
    "reasons.fields.field_missing_or_not_whole_from",
    "reasons.file_kinds.looks_book",
    "reasons.model_answers.conversation_language",
    "reasons.model_answers.item_not_object",
    "reasons.model_answers.messages_of",
    "reasons.model_answers.text_of",
    "reasons.model_answers.text_without_words",
    "terminal.usage.usage_other",
    "terminal.usage.usage_value",
}
"""Texts whose English names more than other languages have to."""
OF_LIBRARIES = "{text}"
"""The English of a library is its own; other languages word it from the error's parameters."""


@pytest.mark.parametrize("language", languages())
def test_every_language_has_the_same_texts_with_the_same_placeholders(language: str) -> None:
    english, other = texts_of(FALLBACK), texts_of(language)
    assert list(other) == list(english)
    assert [place for place, text in other.items() if not text.strip()] == []
    for pattern in (PLACEHOLDER, ACTION):
        found = {place: set(pattern.findall(text)) for place, text in other.items()}
        needed = {place: set(pattern.findall(text)) for place, text in english.items()}
        wrong = {place for place in found if found[place] != needed[place] and english[place] != OF_LIBRARIES}
        assert wrong - SHORTER == set()


def test_no_code_has_two_texts() -> None:
    grouped = (("messages",), ("reasons",), ("terminal",), ("reports",), ("mcp", "texts"))
    for path in grouped:
        places = [place.removeprefix(".".join(path) + ".") for place in texts_of(FALLBACK, *path)]
        codes = Counter(place.partition(".")[2] for place in places)
        assert [code for code, count in codes.items() if count > 1] == [], path


def test_every_reason_that_is_given_has_words_and_its_parameters() -> None:
    wrong, count = _wrong(REASONS, ("Reason", "Invalid"))
    assert wrong == []
    assert count > 200


def test_every_error_that_is_raised_has_words_and_its_parameters() -> None:
    wrong, count = _wrong(TEXTS, ERRORS)
    assert wrong == []
    assert count > 300


def test_every_reason_is_used() -> None:
    """Those of libraries are found by what the library tells of its error."""
    used = {
        code for _, name, call in _calls() if name in ("Reason", "Invalid") for code in _codes(call.args[0])
    }
    used |= {code for code in REASONS if code.startswith(("os_", "pydantic_", "yaml_"))}
    assert {*REASONS} - used == set()


def test_no_error_gives_a_sentence_of_ours_as_its_reason() -> None:
    found = [
        f"{place}: {ast.unparse(keyword.value)}"
        for place, name, call in _calls()
        if name in (*ERRORS, "Refusal")
        for keyword in call.keywords
        if keyword.arg == "reason" and isinstance(keyword.value, ast.Constant | ast.JoinedStr)
    ]
    assert found == []


def test_a_reason_of_a_library_is_known_by_its_type() -> None:
    with pytest.raises(OSError, match="No such file") as raised:
        Path("/nowhere/at/all").read_text(encoding="utf-8")
    reason = as_reason(raised.value)
    assert worded(reason, "en") == "No such file or directory"
    assert worded(reason, "zh") == "没有这个文件或目录"
    assert worded(as_reason(OSError("in its own words")), "zh") == "in its own words"
    assert worded(json_reason(ValueError("Exceeds the limit")), "zh") == "其中有过大的数字"
    assert worded(as_reason(ZeroDivisionError()), "en") == "ZeroDivisionError"


def test_an_invalid_value_is_a_value_error_with_a_reason() -> None:
    error = Invalid("field_not_list", field="points")
    assert isinstance(error, ValueError)
    assert str(error) == "points is not a list"
    assert reason_of(error) == Reason("field_not_list", field="points") != Reason("field_not_list", field="x")


def _pickled(error: PersonaLabError | Invalid) -> PersonaLabError | Invalid:
    return pickle.loads(pickle.dumps(error))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
@pytest.mark.parametrize(
    "error",
    [
        Busy("busy", instance_id="s1", pid=1, seconds=2),
        BadRecord("bad_record", field="f", reason=Reason("not_text")),
        ProviderError("provider.failed", retryable=True, reason="x"),
        ProviderError("provider.failed", reason=Reason("nested", reason=Reason("blank"))),
        Invalid("field_not_list", field="points"),
    ],
)
def test_an_error_can_be_copied_and_pickled(
    error: PersonaLabError | Invalid,
    copied: Callable[[PersonaLabError | Invalid], PersonaLabError | Invalid],
) -> None:
    found = copied(error)
    assert found is not error
    assert type(found) is type(error)
    assert (found.args, vars(found), str(found)) == (error.args, vars(error), str(error))


def test_a_reason_that_is_kept_in_a_file_can_be_said_in_both_languages() -> None:
    kept = plain_params({"project": "p", "reason": Reason("other_sum", value="60", total="59")})
    assert kept["reason"] == "60, but the six scores are 59"
    assert restored_params(kept) == {
        "project": "p",
        "reason": Reason("other_sum", value="60", total="59"),
    }
    warning = {"code": "lab_board_doubt", **kept}
    assert "六项之和是 59" in warning_text(warning, "zh")
    assert "the six scores are 59" in warning_text(warning, "en")
    older = {"code": "lab_board_doubt", "project": "p", "reason": "something"}
    assert "something" in warning_text(older, "zh")
