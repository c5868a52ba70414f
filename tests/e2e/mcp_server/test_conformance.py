"""The official MCP conformance suite, run against both revisions of the protocol.

Only the scenarios that a revision scores decide; the suite runs the rest for information. The product itself
is tested unchanged, with a list of what it cannot answer because it has no such feature, and again with the
suite's own tools, resources and prompts added (``conformance_fixtures``): then everything must pass.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.running import HTTP_SERVER, require_node, run, serving, world

pytestmark = pytest.mark.full

HERE = Path(__file__).resolve().parent
REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_node()
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(scope="module")
def product(folder: Path) -> Iterator[str]:
    """The product as it is."""
    with serving(HTTP_SERVER, world(folder)) as running:
        yield running.url


@pytest.fixture(scope="module")
def with_fixtures(folder: Path) -> Iterator[str]:
    """The product with what the suite calls by name."""
    command = [sys.executable, "-m", "tests.e2e.mcp_server.conformance_server"]
    with serving(command, world(folder)) as running:
        yield running.url


def conformance(url: str, revision: str, results: Path, baseline: Path) -> tuple[int, str]:
    """Run the suite; give its exit code and what it printed. Warnings count, once there is a baseline."""
    command = ["conformance", "server", "--url", url, "--requirements", revision]
    options = ["--expected-failures", str(baseline), "--output-dir", str(results)]
    ended = run([*command, *options], world(results))
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("revision", REVISIONS)
def test_with_the_suites_fixtures_every_scored_scenario_passes(
    with_fixtures: str, revision: str, tmp_path: Path
) -> None:
    nothing = tmp_path / "baseline.yml"
    nothing.write_text("server: []\n", encoding="utf-8")
    code, said = conformance(with_fixtures, revision, tmp_path, nothing)
    assert code == 0, said


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_product_fails_only_what_it_does_not_offer(product: str, revision: str, tmp_path: Path) -> None:
    baseline = HERE / f"conformance_baseline_{revision}.yml"
    code, said = conformance(product, revision, tmp_path, baseline)
    assert code == 0, said
