"""Can a person compare skills, see who is better, search for a better one, and judge tags, by clicks alone?"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.web.browser import Visits, expect
from tests.web.browser_worlds import House, house


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
