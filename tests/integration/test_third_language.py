"""A language is one file: with a third one beside the catalogues, every entrance speaks it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from personalab.i18n import catalogue
from tests.support.catalogues import texts_of
from tests.support.mcp_server.panel_host.host import launch
from tests.support.web.serving import serving

PROJECT = Path(__file__).parents[2]
PACKAGES = ("cli", "graph", "mcp_server", "nodes", "personalab", "web")
PSEUDO = "xx"
OPAQUE = re.compile(r"\{[\w:]+[|}]|[^{}]+|.", re.DOTALL)
ACCENTS = str.maketrans("AEIOUaeiou", "ÀÈÌÒÙàèìòù")


def accented(text: str) -> str:
    """Write a text as the pseudo-language does: each vowel with an accent, names of placeholders as they are."""
    return "".join(part if part.startswith("{") else part.translate(ACCENTS) for part in OPAQUE.findall(text))


def pseudo(part: Any) -> Any:
    """Return a part of the English catalogue in the pseudo-language."""
    match part:
        case str():
            return accented(part)
        case list():
            return [pseudo(line) for line in cast("list[str]", part)]
        case _:
            return {name: pseudo(inner) for name, inner in cast("Mapping[str, Any]", part).items()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the product with one more catalogue."""
    folder = tmp_path_factory.mktemp("site")
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "data" / "shipped", folder / "personalab" / "shipped")
    added = pseudo(catalogue("en"))
    added["about"] |= {"name": "Ẋẋ", "tag": "en-XA"}
    path = folder / "personalab" / "i18n" / f"{PSEUDO}.json"
    path.write_text(json.dumps(added, ensure_ascii=False), encoding="utf-8")
    return folder


@pytest.fixture
def world(site: Path, tmp_path: Path) -> dict[str, str]:
    """Make the environment of the installed product, with a data root of its own."""
    outside = ("PERSONALAB", "OPENAI", "LANGSMITH", "LANGCHAIN", "PYTHON", "LC_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    own = {"HOME": str(tmp_path), "PERSONALAB_DATA": str(tmp_path / "data"), "PYTHONPATH": str(site)}
    return {**kept, **own, "LANG": "en_US.UTF-8", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}


def run(world: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cli", *words]
    return subprocess.run(
        command, cwd=world["HOME"], env=dict(world), capture_output=True, encoding="utf-8", check=False
    )


def said(place: str) -> re.Pattern[str]:
    """Match a text of the pseudo-language, given by section and code, whatever is filled into it."""
    section, _, code = place.partition(".")
    (text,) = (text for at, text in texts_of("en", section).items() if at.endswith(f".{code}"))
    parts = re.split(r"\{(\w+)(?:\|([^{}|]*)\|([^{}|]*))?\}|\{do:\w+\}", accented(text))[::4]
    return re.compile(r"[\s\S]*?".join(map(re.escape, parts)))


OURS = """() => {
  const page = document.body.cloneNode(true);
  const theirs = 'bdi, [lang], .words, option, textarea, code, [dir=auto], noscript';
  for (const one of page.querySelectorAll(theirs)) one.remove();
  return page.innerText || page.textContent;
}"""
"""What the page itself says, not what people and models wrote."""
NAMES = {"PersonaLab", "modules", "json", "director", "recall", "memory", "lorebook", "auto", "user"}
"""Names that are the same in every language."""
COMMANDS: list[tuple[tuple[str, ...], str]] = [
    (("settings",), "terminal.setting_language"),
    (("library",), "terminal.characters"),
    (("new", "--character", "char_maren", "--id", "tale"), "terminal.made"),
    (("say", "tale", "Good evening."), "terminal.task_say"),
    (("read", "tale"), "terminal.turn"),
    (("prompt", "tale"), "terminal.prompt_head"),
    (("recall", "tale", "nothing of the kind"), "terminal.nothing_found"),
    (("doctor",), "terminal.all_well"),
    (("memory", "list"), "terminal.no_memories"),
    (("lab", "projects"), "terminal.lab_no_projects"),
    (("read", "nobody"), "messages.no_instance"),
    (("nonsense",), "terminal.usage_command"),
    (("settings", "set", "language", "yy"), "messages.setting_out_of_range"),
]


def test_the_terminal_speaks_it(world: dict[str, str]) -> None:
    assert run(world, "settings", "set", "language", PSEUDO).returncode == 0
    for words, place in COMMANDS:
        done = run(world, *words)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown, words
        if words[0] != "say":  # a reply is the model's
            assert said(place).search(shown), (words, shown)
    assert PSEUDO in run(world, "settings", "set", "language", "yy").stderr


def test_a_story_in_it_is_told_by_the_english_prompts(world: dict[str, str]) -> None:
    assert run(world, "settings", "set", "language", PSEUDO).returncode == 0
    assert run(world, "new", "--character", "char_maren", "--id", "tale").returncode == 0
    assert run(world, "say", "tale", "Good evening.").returncode == 0
    shown = run(world, "prompt", "tale", "--text")
    assert shown.returncode == 0, shown.stderr
    assert "Maren" in shown.stdout


@pytest.mark.full
def test_the_page_speaks_it(world: dict[str, str], tmp_path: Path) -> None:
    """Walk the views: every word of ours that has a vowel has an accent."""
    assert run(world, "settings", "set", "language", PSEUDO).returncode == 0
    assert run(world, "new", "--character", "char_maren", "--id", "tale").returncode == 0
    with serving(
        {**world, "PYTHONSAFEPATH": "1"}, tmp_path / "server.log", "--toolsets", "chat,memory,archive,lab"
    ) as served:
        assert served.url
        with launch() as browser, contextlib.closing(browser.new_page()) as page:
            for view in (
                "",
                "chat/tale",
                "memory",
                "settings",
                "lab",
                "characters/char_maren",
                "backgrounds/+",
            ):
                page.goto(f"{served.url}/#/{view}")
                page.reload()
                page.wait_for_selector("main h1")
                shown = str(page.evaluate(OURS))
                assert re.search("[àèìòù]", shown), view
                plain = [
                    word for word in re.findall(r"\b[A-Za-z]{4,}\b", shown) if re.search("[aeiou]", word)
                ]
                assert [word for word in plain if word not in NAMES] == [], view


@pytest.mark.anyio
async def test_mcp_speaks_it(world: dict[str, str]) -> None:
    assert run(world, "settings", "set", "language", PSEUDO).returncode == 0
    started = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "mcp_server"], env=world, cwd=world["HOME"]
    )
    async with Client(started, read_timeout_seconds=120) as client:
        titles = {tool.name: tool.title for tool in (await client.list_tools()).tools}
        expected = {place.rpartition(".")[2]: text for place, text in texts_of("en", "mcp", "titles").items()}
        assert titles == {name: accented(expected[name]) for name in titles}
        found = await client.call_tool("persona_library", {})
        assert isinstance(found.content[0], TextContent)
        assert said("mcp.characters").search(found.content[0].text)
        refused = await client.call_tool("persona_read", {"instance_id": "nobody"})
        assert refused.is_error
        assert isinstance(refused.content[0], TextContent)
        assert said("messages.no_instance").search(refused.content[0].text)
