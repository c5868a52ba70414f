"""The wording of code and texts follows the project's list of plain words."""

from __future__ import annotations

import pytest

from tools import check_words


@pytest.mark.parametrize(
    "check",
    [
        check_words.question_docstrings,
        check_words.old_names,
        check_words.shared_class_names,
        check_words.old_words,
    ],
)
def test_wording(check: check_words.Check) -> None:
    assert list(check()) == []
