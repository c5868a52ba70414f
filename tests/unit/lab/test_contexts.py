"""A project's context_config decides what becomes of prompts that are too long."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import UserError
from personalab.lab.calling import LEAST_ROOM, estimated_tokens, exceeds, shorten_parts
from personalab.operations.lab.baselines import create_baseline
from personalab.operations.lab.findings import run_analysis
from personalab.operations.lab.projects import create_project
from personalab.operations.lab.skills import create_skill
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import OPTIONS, FakeExecutor, evaluate, told, use

pytestmark = pytest.mark.anyio
LONG = "开头。" + "很长的输入。" * 2_000 + "结尾。"
THRESHOLD = 3_000


def set_context(services: Services, **context: Any) -> None:
    """Change the context settings that new projects get."""
    settings = services.lab_sessions.settings()
    services.lab_sessions.save_settings(
        settings.changed(context={**settings.context.model_dump(), **context})
    )


async def a_project(services: Services, content: str = "Answer briefly.", text: str = LONG) -> ProjectPlace:
    """Make a project of one skill and one case."""
    skill = await create_skill(services, name="brief", content=content, purpose="talk")
    case = {"name": "long", "category": "standard", "input": text, "expected_output": "It answers."}
    baseline = await create_baseline(services, name="b", purpose="talk", cases=[case])
    made = await create_project(
        services, name="P", skill_ids=[skill.meta.id], baseline_ids=[baseline.meta.id], options=OPTIONS
    )
    return services.projects.project(made["project"])


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("export", [True, False])
async def test_run_obeys_the_context_of_its_project(services: Services, compress: bool, export: bool) -> None:
    set_context(services, token_threshold=THRESHOLD, auto_compress=compress, auto_export=export)
    executor = use(services, FakeExecutor())
    place = await a_project(services)
    set_context(services, token_threshold=80_000, auto_compress=True, auto_export=True)
    await evaluate(services, place.name)
    executed, judged = (
        [call for call in executor.calls if (call.schema is not None) == is_judge and "很长" in call.text]
        for is_judge in (False, True)
    )
    assert (len(executed), len(judged)) == (1, 1)
    for call in (*executed, *judged):
        assert (estimated_tokens(call.system) + estimated_tokens(call.text) <= THRESHOLD) == compress
        assert ("省略" in call.text or "left out" in call.text) == compress
        assert "开头。" in call.text
        assert "结尾。" in call.text
    assert judged[0].text.count("<<<") == judged[0].text.count(">>>") == 3, (
        "the judge's question keeps its parts"
    )
    rows = [json.loads(line) for line in place.journal.read_text("utf-8").splitlines()]
    noted = [row for row in rows if row["role"] != "control"]
    assert {row["compressed"] for row in noted} == {compress}
    exports = sorted((place.folder / "x_context").glob("*.md")) if export else []
    assert [row["context_export"] for row in noted if row["context_export"]] == [
        f"x_context/{row['call_id']}.md" for row in noted if export
    ]
    assert all(LONG in path.read_text("utf-8") for path in exports)
    assert (place.folder / "x_context").exists() == export
    assert [row.status for row in place.again().all_results()] == ["completed"]


async def test_threshold_that_a_skill_does_not_fit_is_refused_at_creation(
    services: Services, root: Path
) -> None:
    set_context(services, token_threshold=THRESHOLD)
    with pytest.raises(UserError) as caught:
        await a_project(services, content=LONG)
    assert caught.value.code == "lab_context_no_skill"
    assert "context_config.token_threshold" in caught.value.message("zh")
    assert "brief" in caught.value.message("en")
    assert services.projects.list() == []
    set_context(services, token_threshold=50)
    with pytest.raises(UserError) as caught:
        await a_project(services, content="x", text="y")
    assert caught.value.code in ("lab_context_no_judge", "lab_context_no_skill")


async def test_analysis_is_shown_what_fits(services: Services) -> None:
    executor = use(services, FakeExecutor())
    place = await a_project(services, content=f"Be brief. {LONG}", text="Say 1.")
    await evaluate(services, place.name)
    context = {"token_threshold": THRESHOLD, "auto_compress": True, "auto_export": True}
    place = place.again()
    place.save_config(place.config.changed(context_config=context))
    executor.calls.clear()
    executor.rule = lambda call: told(json.dumps({"segments": [], "issues": []}))
    await run_analysis(services, place.name)
    (call,) = executor.calls
    assert not exceeds(THRESHOLD, call.system, call.text)
    exported = (place.folder / "x_context" / "analysis.md").read_text("utf-8")
    assert LONG in re.sub(r"\n\[\d+\] ", "", exported)  # its sentences are numbered
    doubts = place.read_extra(place.folder / "x_analysis.json")["doubts"]
    assert [row["code"] for row in doubts] == ["lab_skill_shortened"]


@given(
    st.lists(st.text(alphabet="ab中 \n", max_size=2_000), min_size=1, max_size=4),
    st.integers(LEAST_ROOM, 900),
)
def test_shortened_parts_fit_together_and_short_ones_stay_whole(texts: list[str], tokens: int) -> None:
    found = shorten_parts(texts, tokens, "zh")
    assert sum(map(estimated_tokens, found)) <= max(tokens, LEAST_ROOM)
    for before, after in zip(texts, found, strict=True):
        if estimated_tokens(before) <= tokens // len(texts):
            assert after == before
