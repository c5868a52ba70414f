"""A Chinese sentence has its reason in Chinese, too."""

from __future__ import annotations

import re

import pytest

from personalab.errors import BadRecord, ProviderError, Reason, UserError
from personalab.memory.records import read_request

NOW = "2025-10-16T10:30:00Z"
REQUEST = {"agent_id": "a", "user_id": "u", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    "change",
    [
        {"agent_id": 3},
        {"agent_id": "a\nb"},
        {"messages": "none"},
        {"messages": ["none"]},
        {"messages": [{"role": "king", "content": "hi"}]},
        {"messages": [{"role": "user", "content": 3}]},
        {"session_id": "seven"},
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_chinese(change: dict[str, object]) -> None:
    with pytest.raises(BadRecord) as raised:
        read_request({**REQUEST, **change}, NOW)
    words = re.sub(
        r"\b(?:agent_id|messages|session_id|role|content|user|assistant|system|JSON|UUID)\b",
        "",
        raised.value.message("zh"),
    )
    assert not re.search(r"[a-z]{3}", words), words
    assert re.search(r"[a-z]{3}", raised.value.message("en"))


def test_words_of_others_stay_as_they_are() -> None:
    error = ProviderError("provider.unusable_answer", reason="something else entirely")
    assert "something else entirely" in error.message("zh")
    error = ProviderError("provider.unusable_answer", reason=Reason("no_json"))
    assert "回答里没有 JSON" in error.message("zh")
    assert "there is no JSON" in str(error)
    assert "field" not in UserError("field_missing", field="x").message("zh")
