"""An asset that is written when its process dies is the old one or the new one, whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab.assets_cases import CASES
from tests.support.killing import Forks, forking, walk


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Forks]]:
    with forking("tests.e2e.lab.assets_cases") as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_work_killed_at_any_step_is_done_or_not_and_the_next_try_succeeds(
    workers: list[Forks], tmp_path: Path, name: str
) -> None:
    deaths = walk(workers, name, tmp_path)
    assert [death for death in deaths if death.problem] == []
    assert {death.done for death in deaths} >= {False}
    assert len(deaths) > 3
