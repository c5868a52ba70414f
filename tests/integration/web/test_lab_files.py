"""The lab over HTTP where its files are odd: broken ones, and those of other programs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.web.test_lab import CAREFUL, CODING, PLAIN, done, got, posted

pytestmark = pytest.mark.anyio

_TEXT = re.compile(
    r'("(?:name|description|skill_name|baseline_name|project_name|input|actual_output|expected_output|'
    r'score_reasoning|value|model|content|reason)": *"(?:[^"\\]|\\.)*)"'
)


async def made(client: httpx.AsyncClient) -> str:
    body = {"name": "First look", "skill_ids": [PLAIN, CAREFUL], "baseline_ids": [CODING]}
    return (await posted(client, "/projects", 201, **body))["project"]


@pytest.fixture
def workspace(root: Path) -> Path:
    """The lab's folder."""
    return root / "workspace"


async def test_texts_that_are_not_well_formed_are_told_all_the_same(
    app_client: httpx.AsyncClient, workspace: Path
) -> None:
    project = f"/projects/{await made(app_client)}"
    for path, wishes in (("run", {}), ("analysis", {}), ("iteration", {"max_rounds": 1})):
        assert (await done(app_client, f"{project}/{path}", **wishes)).name == "done"
    await done(app_client, "/tags/propose", kind="skill", asset_id=PLAIN)
    for file in workspace.rglob("*.json"):
        if file.name == "x_run.json":  # a server plans no run with a model that is not configured
            continue
        file.write_text(_TEXT.sub(r'\1\\ud83d"', file.read_text(encoding="utf-8")), encoding="utf-8")
    halves: list[str] = []
    of_project = ("", "/plan", "/ranking", "/results", "/analysis", "/iteration")
    for path in ("/projects", "/skills", "/baselines", "/tags", "/leaderboard", f"/baselines/{CODING}",
                 f"/skills/{PLAIN}", *(f"{project}{tail}" for tail in of_project)):  # fmt: skip
        halves += [path] if "\ufffd" in json.dumps(await got(app_client, path), ensure_ascii=False) else []
    cell = await got(app_client, f"{project}/cell", skill_id=PLAIN, case_id="case_001")
    assert cell["answer"].endswith("\ufffd")
    assert {"/projects", "/skills", "/baselines", "/tags", "/leaderboard", project} <= set(halves)


async def test_what_cannot_be_read_is_told_beside_the_lists(
    app_client: httpx.AsyncClient, workspace: Path
) -> None:
    project = await made(app_client)
    broken = workspace / "projects" / "project_broken_20260101000000"
    shutil.copytree(workspace / "projects" / project, broken)
    (broken / "config.json").write_text('{"id":', encoding="utf-8")
    for kind in ("skills", "baselines"):
        next((workspace / kind).glob("*/*/*/meta.json")).write_text("[]", encoding="utf-8")

    def names(told: dict[str, Any]) -> list[str]:
        return [row["name"] for row in next(iter(told.values()))]

    projects = await got(app_client, "/projects")
    assert names(projects) == ["First look"]
    assert [broken.name in text for text in projects["unread"]] == [True]
    for kind, left in (("skills", 3), ("baselines", 1)):
        told = await got(app_client, f"/{kind}")
        assert len(names(told)) == left
        assert ["meta.json" in text for text in told["unread"]] == [True]
