"""Tests of the lab in the browser: comparing skills, running projects, searching and reviewing tags."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.e2e.web.browser_worlds import House, house
from tests.support.web.browser import PHONE, Tab, Visits, expect
from tests.support.web.serving import SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Route


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server with the shipped samples; a stand-in answers and judges."""
    with house(tmp_path_factory.mktemp("lab")) as made:
        yield made


def test_a_project_is_made_run_read_and_searched_from_by_clicks_alone(visit: Visits, home: House) -> None:
    tab = visit(home.url, "lab")
    tab.button("New project").click()
    expect(tab.dialog.get_by_role("checkbox", checked=True)).not_to_have_count(0)
    tab.button("Create", within="dialog").click()
    tab.button("Run", within="main").click()
    expect(tab.dialog).to_contain_text("calls")
    tab.button("Start", within="dialog").click()
    cells = tab.at("main table .lab-cell.completed")
    expect(cells).not_to_have_count(0)
    expect(tab.at("main h1")).to_contain_text("completed")
    project = home.ask("GET", "/api/lab/projects")["projects"][0]
    expect(cells).to_have_count(project["progress"]["total"])
    expect(tab.at(".lab-ranks > li")).not_to_have_count(0)

    cells.first.press("Enter")
    expect(tab.dialog).to_contain_text("/ 100")
    tab.page.keyboard.press("Escape")
    expect(cells.first).to_be_focused()

    tab.button("search").first.click()
    tab.dialog.get_by_role("spinbutton").first.fill("2")
    tab.button("Start", within="dialog").click()
    expect(tab.at(".lab-plot svg circle")).not_to_have_count(0)
    expect(tab.at("main")).to_contain_text("ended", ignore_case=True)
    assert home.ask("GET", f"/api/lab/projects/{project['project']}/iteration")["completed_at"]
    tab.open("lab/leaderboard")
    expect(tab.at("main table tbody tr")).not_to_have_count(0)


def test_tags_wait_for_a_persons_word(visit: Visits, home: House) -> None:
    folder = next(home.data.glob("workspace/skills/*/*/*"))
    tags = json.loads((folder / "tags.json").read_text(encoding="utf-8"))
    tags["auto"] = [
        {
            "id": f"00000000-0000-4000-8000-00000000000{number}",
            "value": value,
            "status": "pending",
            "generated_at": "2026-01-01T00:00:00Z",
            "log_ref": "",
        }
        for number, value in enumerate(("taciturn", "seafaring"), 1)
    ]
    (folder / "tags.json").write_text(json.dumps(tags), encoding="utf-8")
    tab = visit(home.url, "lab/tags")
    tab.button("Approve: taciturn").click()
    expect(tab.button("Reject: seafaring")).to_be_visible()
    tab.button("Reject: seafaring").click()
    expect(tab.button("Reject")).to_have_count(0)
    kept = json.loads((folder / "tags.json").read_text(encoding="utf-8"))["auto"]
    assert {tag["value"]: tag["status"] for tag in kept} == {"taciturn": "approved", "seafaring": "rejected"}


# --- odd worlds

ENDLESS = "x" * 180


def reworded(path: Path, **values: Any) -> None:
    known = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**known, **values}), encoding="utf-8")


def told_instead(tab: Tab, path: str, **values: Any) -> None:
    """Let the server's answer have other values when it comes to the page."""

    def answer(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), **values})

    tab.page.route(path, answer)


def made(home: House, name: str) -> str:
    """Make a project of the coding samples, by a program."""
    parts = {
        f"{kind}_ids": [
            row["id"]
            for row in home.ask("GET", f"/api/lab/{kind}s")[f"{kind}s"]
            if row["purpose"] == "coding"
        ]
        for kind in ("skill", "baseline")
    }
    return home.ask("POST", "/api/lab/projects", json={"name": name, **parts})["project"]


def run(home: House, project: str) -> None:
    job = home.ask("POST", f"/api/lab/projects/{project}/run", json={})
    assert "event: done" in httpx.get(f"{home.url}{job['stream']}", timeout=SECONDS).text


def test_names_without_an_end_widen_no_page_and_leave_room_for_results(visit: Visits, home: House) -> None:
    folder = next(home.data.glob("workspace/skills/coding/*/*"))
    tag = {"id": "00000000-0000-4000-8000-000000000009", "value": ENDLESS, "status": "pending"}
    reworded(folder / "tags.json", auto=[{**tag, "generated_at": "2026-01-01T00:00:00Z", "log_ref": ""}])
    reworded(folder / "meta.json", name=ENDLESS)
    baseline = next(home.data.glob("workspace/baselines/coding/*/*/cases.json"))
    cases = json.loads(baseline.read_text(encoding="utf-8"))
    cases["cases"][0]["name"] = ENDLESS
    baseline.write_text(json.dumps(cases), encoding="utf-8")
    project = made(home, ENDLESS)
    run(home, project)
    tab = visit(home.url, "lab/tags", size=PHONE)
    expect(tab.at(".lab-tag")).not_to_have_count(0)
    assert tab.sticks_out() is None
    for place, shown in (("lab", ".card"), ("lab/skills", ".card"), ("lab/leaderboard", "table")):
        tab.open(place)
        expect(tab.at(f"main {shown}")).not_to_have_count(0)
        assert tab.sticks_out() is None, place
    tab.open(f"lab/projects/{project}")
    expect(tab.at(".lab-cell")).not_to_have_count(0)
    assert tab.sticks_out() is None
    matrix, first = (tab.at(what).first.bounding_box() for what in (".lab-matrix", ".lab-matrix tbody th"))
    assert matrix
    assert first
    assert first["width"] < matrix["width"] / 2


def test_a_search_of_which_nothing_has_a_score_is_told_without_a_plot(visit: Visits, home: House) -> None:
    project = made(home, "Failed search")
    run(home, project)
    lost = {"strategy": "mix", "score": None, "won": False, "error": "it failed"}
    nothing = {"round": 1, "strategy": "mix", "winner": "", "score": None, "best_so_far": None}
    tab = visit(home.url, None)
    told_instead(
        tab, "**/iteration", started=True, text=["ended"], rounds=[{**nothing, "candidates": [lost]}]
    )
    tab.open(f"lab/projects/{project}")
    tab.page.get_by_text("Show as table").click()
    expect(tab.at("main")).to_contain_text("no score (screened out or failed)")
    expect(tab.at(".lab-plot")).to_have_count(0)


def test_a_limit_that_is_no_number_starts_nothing(visit: Visits, home: House) -> None:
    project = made(home, "Paid")
    tab = visit(home.url, None)
    told_instead(tab, "**/plan?*", is_free=False, needs_confirm=True, max_calls=30)
    tab.open(f"lab/projects/{project}")
    tab.button("Run", within="main").click()
    for typed in ("-3", "2.5", "1e"):
        box = tab.dialog.get_by_role("spinbutton").first
        box.fill("")
        box.press_sequentially(typed)
        tab.button("Accept cost", within="dialog").click()
        expect(box).to_be_focused()
    tab.button("Cancel", within="dialog").click()
    told = home.ask("GET", f"/api/lab/projects/{project}")
    assert (told["status"], told["calls_made"]) == ("pending", 0)


def test_what_is_not_there_or_cannot_be_read_is_said(
    visit: Visits, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with house(tmp_path_factory.mktemp("bare")) as bare:
        lab = bare.data / "workspace"
        shutil.copytree(lab / "projects" / made(bare, "Whole"), lab / "projects" / "project_torn")
        (lab / "projects" / "project_torn" / "config.json").write_text("{", encoding="utf-8")
        tab = visit(bare.url, "lab")
        expect(tab.at(".lab-note")).to_contain_text("project_torn is not listed")
        shutil.rmtree(lab / "skills")
        shutil.rmtree(lab / "baselines")
        tab.open("lab/skills")
        expect(tab.page.get_by_text("personalab lab samples")).to_have_count(2)
        tab.open("lab")
        tab.button("New project").click()
        expect(tab.dialog).to_contain_text("personalab lab samples")
