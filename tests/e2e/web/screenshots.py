"""Screenshots of the page for the documents. ``python -m tests.e2e.web.screenshots`` makes them."""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from personalab.story.transcript import Line
from tests.e2e.web.browser_worlds import House, house, said
from tests.support.mcp_server.panel_host.host import launch
from tests.support.web.browser import Tab, Visits, expect, visiting
from tests.support.web.serving import wait_until
from tests.support.web.slow_model import SlowModel

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
LARGEST = 200_000
Theme = Literal["light", "dark"]
_SIZE = (1200, 760)

_ZH: list[Line] = [
    *said(
        1,
        "我们已经潜入据点了，你看前面那个房间。",
        "（透过门缝）就是他……Victor，我曾经最信任的兄弟。[PROGRESS:3:in_progress]",
    ),
    *said(2, "你想怎么做？直接冲进去？", "不，太危险了。我数了一下，里面至少有五个人，都带着枪。"),
    *said(3, "你打算等到什么时候？", "等他们分散。Victor 不可能一直和他们在一起。"),
    *said(
        4,
        "你还记得我们之前的约定吗？",
        "我当然记得。（沉默片刻）我答应过你，*不会冲动送死*。但 Victor 必须付出代价，这是我活下去的唯一理由。"
        "我会等，等到最安全的时机。[PROGRESS:3:in_progress]",
    ),
]
_EN: list[Line] = [
    *said(
        1,
        "I am the surveyor. The Board sent me.",
        "(She does not take her eyes off the swell.) Then you are early, and wet. Mind the third step, it is loose."
        " [PROGRESS:1:in_progress]",
    ),
    *said(
        2,
        "May I see the lamp room?",
        "After the kettle. (She hands you a rag.) Whoever dries the glass may look through it."
        " [PROGRESS:1:completed]",
    ),
    *said(
        3,
        "There is a gap between these log books.",
        "So there is. (A pause.) You count well, for a man who has been here an hour."
        " [PROGRESS:2:in_progress]",
    ),
]


def furnish(home: House) -> None:
    """Put what the pictures show into a data root; the outlines stand where the last markers say."""
    home.story("inst_001", _ZH, character="char_alserqi", background="bg_wasteland")
    home.story("inst_002", _EN)
    stories = home.services.stories
    for instance_id, index in (("inst_001", 3), ("inst_002", 2)):
        state = stories.instance(instance_id)
        plot = replace(state.plot_state, current_plot_index=index, current_status="in_progress")
        stories.save_instance(replace(state, plot_state=plot))


def run_a_project(home: House) -> str:
    """Let the lab's samples compete, so that there is something to see."""
    skills = [
        row["id"] for row in home.ask("GET", "/api/lab/skills")["skills"] if row["purpose"] == "persona"
    ]
    baselines = [
        row["id"] for row in home.ask("GET", "/api/lab/baselines")["baselines"] if row["purpose"] == "persona"
    ]
    options = {"model": "rehearsal", "judges": ["rehearsal"]}
    asked = {"name": "Two keepers", "skill_ids": skills, "baseline_ids": baselines, "options": options}
    project = home.ask("POST", "/api/lab/projects", json=asked)["project"]
    job = home.ask("POST", f"/api/lab/projects/{project}/run", json={"confirm": True})["job_id"]
    wait_until(lambda: home.ask("GET", f"/api/jobs/{job}")["status"] != "running", "the run never ended")
    return project


def _chat(tab: Tab) -> None:
    expect(tab.at("main textarea")).to_be_visible()
    expect(tab.at(".turn").last).to_be_visible()
    expect(tab.button(re.compile("🔍"))).to_be_visible()


def _prompt(tab: Tab) -> None:
    _chat(tab)
    tab.button(re.compile("🔍")).click()
    expect(tab.dialog.locator("details, summary").first).to_be_visible()


def _library(tab: Tab) -> None:
    expect(tab.at("main h1, main h2").first).to_be_visible()
    expect(tab.at(".card").nth(3)).to_be_visible()


def _lab(tab: Tab) -> None:
    expect(tab.at("main table").first).to_be_visible()
    tab.page.mouse.wheel(0, 340)
    tab.wait("() => scrollY > 300")


def make(visit: Visits, home: House, folder: Path) -> list[Path]:
    """Take every picture of a data root that was furnished and has run a project."""
    project = home.ask("GET", "/api/lab/projects")["projects"][0]["project"]
    shots: list[tuple[str, Theme, tuple[int, int], str, str, Callable[[Tab], None]]] = [
        ("zh", "light", _SIZE, "chat-zh", "chat/inst_001", _chat),
        ("zh", "dark", (390, 780), "phone", "chat/inst_001", _chat),
        ("en", "light", _SIZE, "chat", "chat/inst_002", _chat),
        ("en", "light", _SIZE, "library", "", _library),
        ("en", "light", _SIZE, "prompt", "chat/inst_002", _prompt),
        ("en", "light", _SIZE, "lab", f"lab/projects/{project}", _lab),
    ]
    made: list[Path] = []
    for language, theme, size, name, path, ready in shots:
        home.speak(language)
        tab = visit(home.url, path, theme=theme, size=size)
        ready(tab)
        made.append(folder / f"{name}.png")
        tab.page.screenshot(path=made[-1], animations="disabled", caret="hide")
    home.speak("en")
    return made


def varied(picture: Path) -> int:
    """Count the different rows of a picture: a blank one has hardly any."""
    content, rows, place = picture.read_bytes(), b"", 8
    width = int.from_bytes(content[16:20])
    assert (content[24], content[25]) in ((8, 2), (8, 6)), "not a picture of eight bits a colour"
    while place < len(content):
        size, kind = int.from_bytes(content[place : place + 4]), content[place + 4 : place + 8]
        rows += content[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        place += size + 12
    line = 1 + width * (3 if content[25] == 2 else 4)
    whole = zlib.decompress(rows)
    return len({whole[at : at + line] for at in range(0, len(whole), line)})


def main() -> None:
    """Make the pictures of the documentation."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    # The model is never asked; it is there so that the page does not speak of rehearsals.
    with (
        tempfile.TemporaryDirectory() as folder,
        SlowModel() as model,
        house(Path(folder), model=model) as home,
        launch() as browser,
    ):
        furnish(home)
        run_a_project(home)
        with visiting(browser) as visit:
            for path in make(visit, home, IMAGES):
                print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
