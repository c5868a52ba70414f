"""The skill lab over MCP: assets, projects, findings, and results that fit whatever stands in the files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client

from mcp_server.server import PersonaServer, build_server
from personalab import texts
from personalab.services import Services
from personalab.texts.actions import rendering_for
from tests.integration.mcp_server.conftest import Mode
from tests.integration.mcp_server.lab_world import (
    BRIEF,
    LAB,
    LONG,
    LabScribe,
    a_case,
    lab_server,
    make_project,
    save_skill,
)
from tests.integration.mcp_server.test_budgets import COUNTERS, LIMIT, SOME, TEXTS, tokens
from tests.support.graph.turns import snapshot
from tests.support.mcp_server.calls import call, data_of, refused, text_of
from tests.support.mcp_server.processes import ERAS, Era, talking, world
from tests.support.mcp_server.scribes import as_host

pytestmark = pytest.mark.anyio
LIST_LIMIT = 5_300
"""What the sixteen tools may add to a host's list."""
EXAMPLES = json.loads(
    (Path(__file__).parents[2] / "support" / "lab" / "source_examples.json").read_text("utf-8")
)
NOBODY = "ffffffff-0000-4000-8000-000000000000"


@pytest.fixture
def server(services: Services) -> PersonaServer:
    """The server with this toolset alone, without a model of its own."""
    return lab_server(services)


# --- the toolset


async def test_the_tools_are_there_in_order_when_they_are_asked_for_and_cost_little(
    services: Services, mode: Mode
) -> None:
    async with Client(build_server(services), mode=mode) as client:
        assert not set(LAB) & {tool.name for tool in (await client.list_tools()).tools}
        assert "project_run" not in (client.instructions or "")
    async with Client(build_server(services, ["lab"]), mode=mode) as client:
        listed = await client.list_tools()
        assert "project_run" in (client.instructions or "")
    assert [tool.name for tool in listed.tools] == LAB
    dumped = listed.model_dump_json(by_alias=True, exclude_none=True)
    assert max(counter.count(dumped) for counter in COUNTERS) < LIST_LIMIT
    for tool in listed.tools:
        assert tool.title
        assert tool.title != tool.name
        assert tool.description
        assert "\n" not in tool.description
        assert tool.annotations is not None
        assert None not in tool.annotations.model_dump(exclude={"title"}).values()
        assert tool.output_schema is not None
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)


# --- a whole session


async def test_a_session_from_two_prompts_to_a_better_one(
    server: PersonaServer, root: Path, mode: Mode
) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message is not None:  # no heartbeat
            heard.append(message)

    async with Client(server, mode=mode) as client:
        project = await make_project(client)
        ran = await client.call_tool("project_run", {"project": project}, progress_callback=hear)
        assert not ran.is_error, text_of(ran)
        found = data_of(ran)
        assert (found["status"], found["completed"], found["total"]) == ("done", 6, 6)
        assert {row["skill_name"] for row in found["ranking"]} == {"brief", "long"}
        assert "0.0.0-rehearsal" in text_of(ran)
        assert heard
        standing = await call(client, "project_status", project="First look")
        assert standing["project"]["status"] == "completed"
        assert standing["ranking"] == found["ranking"]
        analysed, rounds = await as_host(client, "analysis_run", LabScribe(), project=project)
        assert len(rounds) == 1
        segments = analysed["analysis"]["advantage_segments"]
        assert [row["content"] for row in segments] == ["Answer in one short sentence."]
        shown = await call(client, "project_status", project=project, show="analysis")
        assert shown["analysis"]["advantage_segments"] == segments
        made = await call(client, "skill_recompose", project=project, keep=["seg_001"], name="better")
        assert made["content"].strip() == "Answer in one short sentence."
        kept = await call(client, "skill_get", skill_id=made["skill"]["id"][:8])
        assert kept["meta"]["name"] == "better"
        assert kept["provenance"]["source_project_name"] == "First look"
        searched = await call(client, "iteration_start", project=project, max_rounds=2)
        assert (searched["status"], searched["iteration"]["total_rounds"]) == ("done", 2)
        again = await call(client, "project_status", project=project, show="iteration")
        assert again["iteration"]["total_rounds"] == 2
        board = await call(client, "leaderboard_query")
        (group,) = board["groups"]
        assert group["skill_count"] == 2
        assert {row["skill_name"] for row in group["records"]} == {"brief", "long"}
        assert {row["staleness"] for row in group["records"]} == {"current"}
        flat = await call(client, "leaderboard_query", group=False)
        assert (flat["records"], "groups" in flat) == (group["records"], False)
        skills = await call(client, "skill_list", query="brief")
        assert skills["skills"][0]["testSummary"]["test_count"] == 1
        for format, ending in (("html", ".html"), ("junit", ".junit.xml"), ("csv", ".csv")):
            out = await client.call_tool("project_report", {"project": project, "format": format})
            data = data_of(out)
            assert data["name"].endswith(ending)
            raw = (root / "exchange" / data["name"]).read_bytes()
            assert len(raw) == data["size"]
            assert ("text" in data) == (format != "html")
            if format != "html":
                assert data["whole"]
                assert data["text"].encode("utf-8") == raw
                assert data["text"] in text_of(out)
            assert str(root) not in text_of(out)


# --- skills


async def test_a_skill_is_kept_changed_compared_and_put_away(server: PersonaServer, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:
        skill_id = await save_skill(client, "brief", BRIEF)
        changed = await call(client, "skill_save", skill_id=skill_id[:8], content=f"{BRIEF}\nBe kind.")
        assert (changed["saved"][0]["outcome"], changed["saved"][0]["version"]) == ("updated", "v2")
        same = await call(client, "skill_save", skill_id=skill_id, name="brief")
        assert (same["saved"][0]["outcome"], same["saved"][0]["version"]) == ("same", "v2")
        said = await refused(client, "skill_save", skill_id=skill_id, content="x", expected_version="v1")
        assert "v2" in said
        found = await call(client, "skill_get", skill_id=skill_id, diff_from="v1")
        assert "+Be kind." in found["diff"]
        assert found["history"][0]["changed_fields"] == ["content"]
        old = await call(client, "skill_get", skill_id=skill_id, version="v1")
        assert (old["content"], old["versions"]) == (BRIEF, ["v1", "v2"])
        await call(client, "skill_save", skill_id=skill_id, archived=True)
        assert (await call(client, "skill_list"))["total"] == 0
        assert (await call(client, "skill_list", archived=True))["total"] == 1
        await call(client, "skill_save", skill_id=skill_id, archived=False)
        assert (await call(client, "skill_list", purpose="talk"))["total"] == 1


async def test_skills_come_in_from_the_folder_with_the_call_and_from_a_character(
    server: PersonaServer, root: Path, mode: Mode
) -> None:
    text = "---\nname: my-skill\ndescription: Says little.\n---\nSay little.\n"
    folder = root / "exchange" / "my-skill"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    evals = {"skill_name": "my-skill", "evals": [{"id": 1, "prompt": "Hi", "expected_output": "Hi"}]}
    (folder / "evals" / "evals.json").write_text(json.dumps(evals), encoding="utf-8")
    (root / "exchange" / "plain.md").write_text("Be plain.", encoding="utf-8")
    async with Client(server, mode=mode) as client:
        came = (await call(client, "skill_save", file="my-skill"))["saved"]
        assert [(row["kind"], row["outcome"]) for row in came] == [
            ("skill", "created"),
            ("baseline", "created"),
        ]
        plain = (await call(client, "skill_save", file="plain.md", purpose="talk"))["saved"][0]
        assert (await call(client, "skill_get", skill_id=plain["id"]))["content"] == "Be plain."
        sent = await call(client, "skill_save", file="SKILL.md", content=text.replace("little", "much"))
        found = await call(client, "skill_get", skill_id=sent["saved"][0]["id"])
        assert found["content"].strip() == "Say much."
        persona = (await call(client, "skill_save", character_id="char_maren"))["saved"][0]
        assert persona["outcome"] == "created"


async def test_tags_are_given_proposed_and_judged(server: PersonaServer, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:
        skill_id = await save_skill(client, "brief", BRIEF)
        tag: dict[str, Any] = {"asset_id": skill_id}
        given = await call(client, "skill_tag", **tag, action="add", tag="mine")
        assert [row["value"] for row in given["manual"]] == ["mine"]
        found, rounds = await as_host(client, "skill_tag", LabScribe(bad=1), **tag, action="auto")
        assert len(rounds) == 2
        assert [(row["value"], row["status"]) for row in found["auto"]] == [
            ("numbers", "pending"),
            ("short", "pending"),
        ]
        await call(client, "skill_tag", **tag, action="approve", tag="short")
        await call(client, "skill_tag", **tag, action="reject", tag="numbers")
        await call(client, "skill_tag", **tag, action="remove", tag="mine")
        assert (await call(client, "skill_list", tag="short"))["skills"][0]["tags"] == ["short"]


async def test_what_a_host_was_asked_leaves_no_trace_until_it_answers(
    server: PersonaServer, root: Path
) -> None:
    async with Client(server) as client:
        skill_id = await save_skill(client, "brief", BRIEF)
        await call(client, "skill_list")
        before = {name: raw for name, raw in snapshot(root / "workspace").items() if "cli/config" not in name}
        asked = await call(client, "skill_tag", asset_id=skill_id, action="auto")
        assert asked["status"] == "awaiting_answer"
        assert BRIEF in asked["prompt"]["messages"][0]["content"]
    after = {name: raw for name, raw in snapshot(root / "workspace").items() if "cli/config" not in name}
    assert after == before


# --- baselines


async def test_cases_are_added_changed_removed_and_drafted(server: PersonaServer, mode: Mode) -> None:
    async with Client(server, mode=mode) as client:
        made = await call(
            client, "baseline_save", name="numbers", purpose="talk", cases=[a_case(1), a_case(2)]
        )
        baseline = {"baseline_id": made["id"]}
        assert made["case_ids"] == ["case_001", "case_002"]
        changes = [a_case(3), {"id": "case_001", "input": "Say 1."}, {"id": "case_002", "remove": True}]
        changed = await call(client, "baseline_save", **baseline, cases=changes)
        assert changed["case_ids"] == ["case_001", "case_003"]
        found = await call(client, "baseline_get", **baseline)
        assert [(row["id"], row["input"]) for row in found["cases"]] == [
            ("case_001", "Say 1."),
            ("case_003", a_case(3)["input"]),
        ]
        drafted, rounds = await as_host(
            client, "baseline_save", LabScribe(), **baseline, generate="small numbers", count=1
        )
        assert len(rounds) == 1
        assert [row["name"] for row in drafted["drafts"]] == ["Zero"]
        one = await call(client, "baseline_get", **baseline, case_id=drafted["drafts"][0]["id"])
        assert one["parts"][0] == {"field": "input", "content": "Say 0."}
        taken = await call(client, "baseline_save", **baseline, accept=["all"])
        assert taken["case_ids"] == ["case_004"]
        await as_host(client, "baseline_save", LabScribe(), **baseline, generate="others", count=1)
        listed = await call(client, "baseline_list")
        assert listed["baselines"][0]["case_count"] == 3
        await call(client, "baseline_save", **baseline, archived=True)
        assert (await call(client, "baseline_list"))["total"] == 0


# --- who answers


async def test_a_clients_model_analyses_and_writes(server: PersonaServer, mode: Mode) -> None:
    scribe = LabScribe(bad=1)
    async with Client(server, mode=mode, sampling_callback=scribe) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        found = await call(client, "analysis_run", project=project)
        assert found["analysis"]["issues"][0]["description"] == "too long"
        made = await call(client, "skill_recompose", project=project, rules="keep seg_001", write=True)
        assert made["content"] == "Answer in one short sentence.\n\nBe kind."
        assert len(scribe.asked) == 3


async def test_a_writer_that_loses_a_kept_segment_makes_nothing(server: PersonaServer) -> None:
    async with Client(server) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        await as_host(client, "analysis_run", LabScribe(), project=project)
        wish: dict[str, Any] = {"project": project, "rules": "keep seg_001", "write": True}
        asked = await call(client, "skill_recompose", **wish)
        while asked["status"] == "awaiting_answer" and asked["cursor"]:
            asked = await call(client, "skill_recompose", **wish, cursor=asked["cursor"])
        lost = json.dumps({"content": "Something else."})
        again = await call(client, "skill_recompose", **wish, answer=lost)
        assert again["status"] == "awaiting_answer"
        await refused(client, "skill_recompose", **wish, answer=lost)
        assert (await call(client, "skill_list"))["total"] == 2


# --- what cannot be done


async def test_what_cannot_be_done_says_why_without_a_path(
    server: PersonaServer, services: Services, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret", encoding="utf-8")
    (root / "exchange").mkdir()
    (root / "exchange" / "link.md").symlink_to(outside)
    async with Client(server) as client:
        project = await make_project(client)
        skills = await call(client, "skill_list")
        skill_id = skills["skills"][0]["id"]
        baseline_id = (await call(client, "baseline_list"))["baselines"][0]["id"]
        before = snapshot(root)
        for tool, given, word in (
            ("skill_get", {"skill_id": NOBODY}, "skill_list"),
            ("skill_get", {"skill_id": skill_id, "version": "v9"}, "v9"),
            ("skill_get", {"skill_id": skill_id, "cursor": "x"}, "x"),
            ("skill_save", {"name": "a", "content": "b"}, "purpose"),
            ("skill_save", {"name": "a", "content": " ", "purpose": "p"}, "content"),
            ("skill_save", {"name": "a", "content": "b", "purpose": "../p"}, "../p"),
            ("skill_save", {"file": "../config.json"}, "exchange"),
            ("skill_save", {"file": "link.md"}, "exchange"),
            ("skill_save", {"file": "none.md"}, "none.md"),
            ("skill_save", {"file": "x.md", "skill_id": skill_id}, "skill_id, file"),
            ("skill_save", {"character_id": "nobody"}, "nobody"),
            (
                "skill_save",
                {"character_id": "char_maren", "name": "x"},
                "name has no effect with character_id",
            ),
            (
                "skill_save",
                {"file": "x.md", "content": "x", "description": "d"},
                "description has no effect with file",
            ),
            ("skill_save", {"file": "x.md", "content": "x", "type": "agent"}, "type has no effect with file"),
            (
                "skill_save",
                {"file": "x.md", "content": "x", "archived": True},
                "archived has no effect with file",
            ),
            ("skill_save", {"name": "a", "content": "b", "purpose": "p", "archived": True}, "skill_id"),
            (
                "skill_save",
                {"name": "a", "content": "b", "purpose": "p", "expected_version": "v1"},
                "skill_id",
            ),
            ("skill_save", {"skill_id": skill_id, "archived": True, "expected_version": "v9"}, "v1"),
            ("skill_tag", {"asset_id": skill_id, "action": "add"}, "tag"),
            ("skill_tag", {"asset_id": skill_id, "action": "approve", "tag": "no"}, "no"),
            ("skill_tag", {"asset_id": skill_id, "action": "auto", "answer": "{}"}, "skill_tag"),
            ("skill_tag", {"asset_id": skill_id, "action": "burn"}, "auto"),
            ("baseline_get", {"baseline_id": NOBODY}, "baseline_list"),
            ("baseline_get", {"baseline_id": baseline_id, "case_id": "case_999"}, "case_001"),
            ("baseline_save", {"name": "x"}, "purpose"),
            ("baseline_save", {"generate": "x"}, "baseline_id"),
            ("baseline_save", {"name": "x", "purpose": "p", "archived": True}, "baseline_id"),
            ("baseline_save", {"name": "x", "purpose": "p", "expected_version": "v1"}, "baseline_id"),
            *(
                (
                    "baseline_save",
                    {"baseline_id": baseline_id, **use, "expected_version": "v1"},
                    "no effect with",
                )
                for use in ({"generate": "x"}, {"accept": ["all"]}, {"reject": ["all"]})
            ),
            ("baseline_save", {"baseline_id": baseline_id, "accept": ["draft_1"]}, "draft_1"),
            ("baseline_save", {"baseline_id": baseline_id, "accept": ["a"], "reject": ["b"]}, "reject"),
            ("baseline_save", {"baseline_id": baseline_id, "cases": [{"name": "x"}]}, "input"),
            ("baseline_save", {"baseline_id": baseline_id, "cases": [{"path": "x"}]}, "cases.path"),
            ("project_create", {"name": "x", "skill_ids": [], "baseline_ids": [baseline_id]}, "skill"),
            ("project_status", {"project": "nothing"}, "project_status"),
            ("project_status", {"project": project, "show": "analysis"}, "analysis"),
            ("project_status", {"project": project, "show": "iteration"}, "iteration_start"),
            ("project_run", {"project": project, "skip": {"case": "x"}}, "case_id"),
            ("project_run", {"project": project, "pause": True}, "not running"),
            ("project_run", {"project": "../../etc"}, "../../etc"),
            ("project_report", {"project": project, "format": "pdf"}, "html"),
            ("analysis_run", {"project": project}, "project_run"),
            ("skill_recompose", {"project": project}, "analysis"),
            ("iteration_start", {"project": project}, "project_run"),
            ("iteration_start", {"project": project, "options": {"speed": 1}}, "beam_width"),
            ("iteration_start", {"project": project, "max_rounds": 0}, "max_rounds"),
            ("iteration_stop", {"project": project}, "nothing to stop"),
        ):
            said = await refused(client, tool, **given)
            assert word in said, (tool, given, said)
            assert str(tmp_path) not in said
        bad = {"name": "x", "skill_ids": [skill_id], "baseline_ids": [baseline_id]}
        for options, word in (({"colour": 1}, "concurrency"), ({"concurrency": 0}, "concurrency")):
            assert word in await refused(client, "project_create", **bad, options=options)
    after = snapshot(root)
    after.pop(f"workspace/projects/{project}/.lock", None)
    assert after == before


def test_no_error_of_the_lab_names_an_option_of_the_terminal() -> None:
    of_the_terminal = ("lab_price_unknown", "lab_export_taken")  # nothing here says these
    with rendering_for("mcp"):
        codes = [code for code in texts.TEXTS if code.startswith("lab_")]
        said = {code: "".join(texts.say(code, language) for language in texts.languages()) for code in codes}
    options = {code for code, words in said.items() if re.search("--[a-z][a-z-]*", words)}
    assert options <= {*of_the_terminal}
    assert "project_run(rerun_failed=true)" in said["lab_iterate_incomplete"]


@pytest.mark.parametrize(
    ("example", "file", "word"),
    [
        ("7.2", "iteration_report.json", "threshold"),
        ("7.3", "exploration_log.json", "GREEDY, DIMENSION_FOCUS"),
    ],
)
async def test_a_search_of_another_program_is_shown(
    server: PersonaServer, services: Services, example: str, file: str, word: str
) -> None:
    async with Client(server) as client:
        project = await make_project(client)
        folder = services.projects.folder / project / "iterations"
        folder.mkdir()
        (folder / file).write_text(json.dumps(EXAMPLES[example]), encoding="utf-8")
        found = await client.call_tool("project_status", {"project": project, "show": "iteration"})
        assert not found.is_error, text_of(found)
        assert word in text_of(found)


async def test_a_report_takes_no_name_that_is_taken(server: PersonaServer, root: Path) -> None:
    async with Client(server) as client:
        project = await make_project(client)
        first = await call(client, "project_report", project=project, format="csv")
        (root / "exchange" / first["name"]).write_bytes(b"mine")
        (root / "exchange" / f"{first['name'][:-4]}-2.csv").symlink_to(root / "nowhere")
        second = await call(client, "project_report", project=project, format="csv")
    assert second["name"] == f"{first['name'][:-4]}-3.csv"
    assert (root / "exchange" / first["name"]).read_bytes() == b"mine"
    assert not (root / "nowhere").exists()


async def test_a_case_that_is_refused_says_how_many_were_saved(server: PersonaServer) -> None:
    async with Client(server) as client:
        made = await call(client, "baseline_save", name="numbers", purpose="talk", cases=[a_case(1)])
        changes = [a_case(2), {"id": "case_009", "input": "x"}]
        said = await refused(client, "baseline_save", baseline_id=made["id"], cases=changes)
        assert "number 2" in said
        assert "1 before" in said
        found = await call(client, "baseline_get", baseline_id=made["id"])
        assert [row["id"] for row in found["cases"]] == ["case_001", "case_002"]


# --- budgets


async def _pages(client: Client, tool: str, **given: Any) -> list[dict[str, Any]]:
    """Follow the cursors to the end; every page fits."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        assert len(found) < 500
        raw = await client.call_tool(tool, {**given, **({"cursor": cursor} if cursor else {})})
        assert not raw.is_error, text_of(raw)
        assert tokens(raw) < LIMIT, tool
        found.append(data_of(raw))
        cursor = found[-1]["cursor"]
    return found


@pytest.mark.parametrize("kind", SOME)
async def test_giant_contents_are_read_page_by_page(server: PersonaServer, kind: str) -> None:
    giant = f"a{TEXTS[kind][:60_000]}z"
    async with Client(server) as client:
        skill_id = await save_skill(client, giant[:150].replace("\n", " "), giant)
        await call(client, "skill_save", skill_id=skill_id, description=giant[:5_000])
        joined = "".join(page["content"] for page in await _pages(client, "skill_get", skill_id=skill_id))
        assert joined == giant
        case = {"name": "giant", "input": giant, "expected_output": giant}
        rows = [case, *[{**case, "name": f"giant {number}"} for number in range(5)]]
        made = await call(client, "baseline_save", name="g", purpose="talk", cases=rows)
        pages = await _pages(client, "baseline_get", baseline_id=made["id"])
        assert [row["id"] for page in pages for row in page["cases"]] == made["case_ids"]
        one = await _pages(client, "baseline_get", baseline_id=made["id"], case_id="case_003")
        parts = [part for page in one for part in page["parts"]]
        assert "".join(part["content"] for part in parts if part["field"] == "input") == giant
        listed = await _pages(client, "skill_list")
        assert [row["id"] for page in listed for row in page["skills"]] == [skill_id]
        project = await call(
            client,
            "project_create",
            name="giant",
            skill_ids=[skill_id],
            baseline_ids=[made["id"]],
            model="rehearsal",
        )
        for tool, given in (
            ("project_run", {"project": project["project"]}),
            ("project_status", {"project": project["project"], "show": "plan"}),
            ("project_report", {"project": project["project"], "format": "csv"}),
            ("leaderboard_query", {}),
        ):
            raw = await client.call_tool(tool, given)
            assert not raw.is_error, text_of(raw)
            assert tokens(raw) < LIMIT, tool


async def test_long_lists_are_read_page_by_page(server: PersonaServer, services: Services) -> None:
    async with Client(server) as client:
        ids = [await save_skill(client, f"灯塔 {number:03d} " + "长" * 60, LONG) for number in range(70)]
        pages = await _pages(client, "skill_list")
        assert len(pages) > 1
        assert [row["id"] for page in pages for row in page["skills"]] == ids


@pytest.mark.parametrize("kind", ["chinese", "quotes"])
async def test_a_giant_analysis_fits(server: PersonaServer, kind: str) -> None:
    quotes = [f"{number}: {TEXTS[kind][:1_500].strip()}" for number in range(40)]
    async with Client(server) as client:
        one = await save_skill(client, "many", "\n\n".join(quotes))
        made = await call(client, "baseline_save", name="n", purpose="talk", cases=[a_case(1)])
        parts = {"skill_ids": [one], "baseline_ids": [made["id"]], "model": "rehearsal"}
        project = (await call(client, "project_create", name="p", **parts))["project"]
        await call(client, "project_run", project=project)
        asked = await call(client, "analysis_run", project=project)
        while asked["cursor"]:
            asked = await call(client, "analysis_run", project=project, cursor=asked["cursor"])
        row = {"skill": "A", "type": "example", "reason": TEXTS[kind][:900], "dimension": "readability"}
        lines = [{"first": number, "last": number} for number in range(1, len(quotes) + 1)]
        told = {"segments": [{**row, **line} for line in lines], "issues": []}
        answer = json.dumps(told, ensure_ascii=False)
        found = await client.call_tool("analysis_run", {"project": project, "answer": answer})
        assert not found.is_error, text_of(found)
        assert tokens(found) < LIMIT
        shown = await client.call_tool("project_status", {"project": project, "show": "analysis"})
        assert tokens(shown) < LIMIT
        assert data_of(shown)["analysis"]["segment_count"] == data_of(found)["analysis"]["segment_count"] > 0


async def test_leaderboard_pages_keep_every_record_in_its_group(
    server: PersonaServer, services: Services
) -> None:
    async with Client(server) as client:
        skills = [await save_skill(client, f"skill {number}", BRIEF + f" {number}") for number in range(4)]
        cases = [a_case(1)]
        tests = [
            (await call(client, "baseline_save", name=f"灯塔 {n} " + "长" * 60, purpose="talk", cases=cases))[
                "id"
            ]
            for n in range(12)
        ]
        for number, test in enumerate(tests):
            parts = {"skill_ids": skills, "baseline_ids": [test], "model": "rehearsal"}
            project = (await call(client, "project_create", name=f"p{number}", **parts))["project"]
            await call(client, "project_run", project=project)
        pages = await _pages(client, "leaderboard_query")
    assert len(pages) > 1
    found = [
        (group["baseline_id"], row["skill_id"])
        for page in pages
        for group in page["groups"]
        for row in group["records"]
    ]
    assert sorted(found) == sorted((test, skill) for test in tests for skill in skills)
    assert {group["skill_count"] for page in pages for group in page["groups"]} == {4}


async def test_test_summary_has_one_name(server: PersonaServer) -> None:
    async with Client(server) as client:
        project = await make_project(client)
        await call(client, "project_run", project=project)
        listed = (await call(client, "skill_list", query="brief"))["skills"][0]
        shown = await call(client, "skill_get", skill_id=listed["id"])
    assert shown["testSummary"] == listed["testSummary"]
    assert listed["testSummary"]["has_tests"]


# --- over a real connection


@pytest.mark.parametrize("era", ERAS)
def test_the_tools_work_over_stdio(tmp_path: Path, era: Era) -> None:
    with talking(world(tmp_path), tmp_path / "log", "--toolsets", "lab", era=era) as talk:
        assert [tool["name"] for tool in talk.request("tools/list")["tools"]] == LAB
        skill = talk.call("skill_save", name="brief", content=BRIEF, purpose="talk")["saved"][0]["id"]
        baseline = talk.call("baseline_save", name="n", purpose="talk", cases=[a_case(1)])["id"]
        made = talk.call(
            "project_create", name="P", skill_ids=[skill], baseline_ids=[baseline], model="rehearsal"
        )
        ran = talk.call("project_run", project=made["project"])
        assert (ran["status"], ran["completed"]) == ("done", 1)
        out = talk.call("project_report", project=made["project"])
    assert (tmp_path / "data" / "exchange" / out["name"]).is_file()
