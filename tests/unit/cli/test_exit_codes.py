"""Tests of exit codes by error class."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from cli.running import Refusal, guarded
from personalab.errors import Busy, NotFound, ProviderError, StorageError, UserError


def raising(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UserError("blank_input"), 2),
        (NotFound("no_instance", instance_id="x"), 2),
        (Refusal("one_background"), 2),
        (Busy("busy", instance_id="x", pid=1, seconds=1), 1),
        (StorageError("disk_full", file="x"), 1),
        (ProviderError("provider.connection"), 1),
        (ZeroDivisionError("oh"), 1),
        (ModuleNotFoundError("no such", name="chromadb"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_failure_is_an_exit_code_and_at_most_one_sentence(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(error), debug=lambda: False) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == (code != 130)


def test_an_unexpected_failure_names_itself_and_the_way_to_see_it(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "personalab.cli"):
        guarded(raising(ZeroDivisionError("oh")), debug=lambda: True)
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "--debug" in said
    assert "PERSONALAB_DEBUG=1" in said
    assert "Traceback" in caplog.text
