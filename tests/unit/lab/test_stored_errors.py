"""What a file keeps of an error can be said again, in both languages and at every entrance."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from personalab.errors import BadRecord, Because, NotFound, Reason, StorageError
from personalab.lab.calling import CallAnswer, plain_params, restored_params, warning_text
from personalab.operations.lab.questions import FailedCallError
from personalab.texts import Language, languages, say
from personalab.texts.actions import rendering_for

NAMES = st.sampled_from(
    [
        *(
            "reason",
            "reason_code",
            "reason_error",
            "reason.reason",
            "reason.reason_code",
            "reason.reason_error",
        ),
        *("reason.code", "reason.language", "reason.self", "reason.text", "field"),
        *("code", "language", "template", "text", "self", "params", "retryable"),
    ]
)
CODES = st.sampled_from(["not_text", "nested", "at_field", "too_deep", "file_broken", "it is blank", "none"])
VALUES = st.recursive(
    CODES | st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PARAMS = st.dictionaries(NAMES | st.text(max_size=8), VALUES, max_size=8)

REASONS: list[Because] = [
    Reason("not_text"),
    Reason("nested", reason=Reason("not_within", limit="9")),
    Reason("at_field", field="a", reason=Reason("at_field", field="b", reason=Reason("not_list"))),
    Reason("summary_language", language="zh"),
    Reason("too_deep"),
    StorageError("too_deep", limit=3),
    StorageError("file_broken", file="a.json", reason=Reason("not_text")),
    Reason("at_field", field="a", reason=BadRecord("bad_record", field="b", reason=Reason("blank"))),
    "a library's own words",
]


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("reason", REASONS, ids=str)
def test_a_reason_from_a_file_says_what_the_given_one_says(reason: Because, language: Language) -> None:
    kept = json.loads(json.dumps(plain_params({"file": "x", "field": "f", "reason": reason})))
    assert kept["reason"] == str(reason)
    restored = restored_params(kept)
    assert restored.keys() == {"file", "field", "reason"}
    said = say("lab_bad_record", language, file="x", field="f", reason=reason)
    assert say("lab_bad_record", language, **restored) == said


def test_nested_reasons_from_a_file_are_the_given_ones() -> None:
    reason = Reason("at_field", field="a", reason=Reason("nested", reason=Reason("not_within", limit="9")))
    assert restored_params(plain_params({"reason": reason})) == {"reason": reason}


def test_an_error_is_kept_in_the_same_words_from_every_entrance() -> None:
    params = {"reason": Reason("nested", reason=NotFound("no_background", background_id="b"))}
    with rendering_for("mcp"):
        kept = plain_params(params)
        assert "persona_library" in str(restored_params(kept)["reason"])
    assert kept == plain_params(params)
    assert "personalab library" in str(kept["reason"])


def test_an_older_file_with_an_english_reason_is_shown_in_chinese() -> None:
    older = {"file": "x.json", "field": "call_id", "reason": "it is not a text"}
    said = "x.json 的字段 call_id 不对：它不是文本；请修正该文件"
    assert warning_text({"code": "lab_bad_record", **older}, "zh") == said
    assert "it is not a text" in warning_text({"code": "lab_bad_record", **older}, "en")
    read = CallAnswer.read({"status": "failed", "error_code": "lab_bad_record", "error_params": older})
    assert said in FailedCallError("lab_ask_failed", read, model="m").message("zh")


@given(PARAMS, st.sampled_from(languages()))
@example({"reason": "x", "reason_code": "not_text", "reason.code": "y", "reason.self": 1}, "zh")
@example({"reason": "x", "reason_error": "file_broken", "reason.code": "y", "reason.self": 1}, "zh")
@example({"reason": ["it is blank"], "language": "x", "template": "y", "self": 1}, "en")
def test_no_parameters_of_a_file_keep_an_error_from_being_said(
    params: dict[str, Any], language: Language
) -> None:
    assert say("lab_bad_record", language, **params)
    assert warning_text({**params, "code": "lab_bad_record"}, language)
    assert isinstance(warning_text(params, language), str)
    for code in ("lab_bad_record", None):
        row = {"status": "failed", "error": "e", "error_code": code, "error_params": params}
        assert FailedCallError("lab_ask_failed", CallAnswer.read(row), model="m").message(language)
