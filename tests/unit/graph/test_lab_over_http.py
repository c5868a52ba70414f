"""A project of the lab with a real small model behind HTTP, that answers, and that judges itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from personalab.lab.assets import BaselineMeta, Case, Cases, SkillMeta
from personalab.lab.options import RunOptions
from personalab.operations.lab.projects import create_project
from personalab.providers.chat_models import open_model
from personalab.providers.local import start_server
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services
from personalab.storage.lab.projects import ProjectPlace
from tests.support.lab.running import BASELINES, NOW, SKILLS, evaluate

pytestmark = pytest.mark.anyio
SMALL = "openai:smollm2"
MOST_TOKENS = 16
PATIENCE = 600.0
"""A busy machine may need long for a judge's question: what it answers is tested here, not how fast."""
CUT_OFF = 8
"""So few tokens hold no judgement, and are quickly said."""
CONTENT = "You are a helpful assistant. Answer in one short sentence.\n"
CASES = (
    ("Capital", "What is the capital of France?", "It names Paris, in one sentence."),
    ("Colour", "What colour is the sky on a clear day?", "It says blue, in one sentence."),
)


def _small(services: Services, gguf_path: Path, most_tokens: int) -> Services:
    """Let a real small model answer over HTTP, always alike."""
    settings = ModelSettings(
        local_context=2048,
        max_output_tokens=most_tokens,
        temperature=0.0,
        first_token_seconds=PATIENCE,
        stall_seconds=PATIENCE,
    )
    local = start_server(gguf_path, settings.local_context, threads=1)
    settings = replace(settings, api_key=local.key, base_url=f"{local.url}/v1")
    services.models[SMALL] = open_model(SMALL, settings=settings)
    return services


async def _project(services: Services, **options: Any) -> ProjectPlace:
    """Make a project of one skill and two cases."""
    times: dict[str, Any] = {"created_at": NOW, "updated_at": NOW}
    kind: dict[str, Any] = {"purpose": "facts", "provider": "local", "version": "v1", "status": "active"}
    services.assets.add_skill(SkillMeta(id=SKILLS[0], name="Brief", **kind, **times), CONTENT)
    rows = tuple(
        Case(
            id=f"case_{number:03d}",
            name=name,
            category="standard",
            input=asked,
            expected_output=expected,
            **times,
        )
        for number, (name, asked, expected) in enumerate(CASES, 1)
    )
    services.assets.add_baseline(
        BaselineMeta(id=BASELINES[0], name="Facts", **kind, **times),
        Cases(baseline_id=BASELINES[0], version="v1", cases=rows),
    )
    made = await create_project(
        services,
        name="Small",
        skill_ids=[SKILLS[0]],
        baseline_ids=[BASELINES[0]],
        options=RunOptions(
            model=SMALL, timeout_seconds=PATIENCE, concurrency=1, backoff_seconds=0, **options
        ),
    )
    return services.projects.project(made["project"])


def _account(place: ProjectPlace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.journal.read_text(encoding="utf-8").splitlines()]


async def test_a_real_model_executes_a_project_and_its_answers_are_kept(
    services: Services, gguf_path: Path
) -> None:
    small = _small(services, gguf_path, MOST_TOKENS)
    place = await _project(small, judges=["rehearsal"])
    events, result = await evaluate(small, place.name)
    assert (result["status"], result["completed"], result["failed"]) == ("done", 2, 0), result["error"]
    assert events[-1]["type"] == "progress"
    for number, (_, asked, _) in enumerate(CASES, 1):
        folder = place.results / "aaaaaaaa_v1"
        found = json.loads((folder / f"case_{number:03d}.json").read_text(encoding="utf-8"))
        assert (found["status"], found["input"], found["model_version"]) == ("completed", asked, "smollm2")
        assert found["cli_version"] == "personalab-openai"
        calls = json.loads((folder / f"x_case_{number:03d}.json").read_text(encoding="utf-8"))["calls"]
        assert [call["model"] for call in calls] == [SMALL, "rehearsal"]
        assert len(found["actual_output"].split()) > 2
        assert found["actual_output"] == calls[0]["text"]
    executed = [row for row in _account(place) if row["role"] == "execute"]
    assert len(executed) == 2
    for row in executed:
        assert row["usage"]["input_tokens"] > 10
        assert 0 < row["usage"]["output_tokens"] <= MOST_TOKENS
    assert result["summary"]["ranking"][0]["completed_cases"] == 2
    _, again = await evaluate(small, place.name)
    assert again["status"] == "done"
    assert len(_account(place)) == len(executed) + 4 + 2, (
        "four planted answers and two cases are judged, once"
    )


async def test_a_judge_whose_answer_is_no_judgement_ends_the_run_before_anything_is_executed(
    services: Services, gguf_path: Path
) -> None:
    small = _small(services, gguf_path, CUT_OFF)
    place = await _project(small, retry_count=0)
    events, result = await evaluate(small, place.name)
    assert result["status"] == "error"
    assert events[-1] == result["error"]
    assert result["error"]["code"] == "lab_control_failed"
    assert "JSON" in result["error"]["message"]
    assert SMALL in result["error"]["message"]
    rows = _account(place)
    assert {row["role"] for row in rows} == {"control"}, "nothing is executed for a judge that cannot judge"
    assert len({row["call_id"] for row in rows}) == len(rows)
    assert all(row["usage"]["output_tokens"] > 0 for row in rows)
    assert not (place.results / "summary.json").exists()
    assert not (place.results / "aaaaaaaa_v1").exists()
    assert place.again().config.status == "interrupted"
