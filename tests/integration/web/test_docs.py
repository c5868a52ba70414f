"""What docs/web.md shows is what happens."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import httpx
import pytest

from tests.conftest import PROJECT
from tests.support.web.serving import SECONDS, Served

PAGES = ["docs/web.md", "docs/web.zh-CN.md"]


def _page(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def test_the_example_plays_a_turn(served: Served) -> None:
    code = re.search(r"```python\n(.*?)```", _page("docs/web.md"), re.DOTALL)
    assert code is not None
    program = code[1].replace("http://127.0.0.1:8765", served.url)
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=served.environment,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    [story] = [one for one in (served.data / "instances").iterdir() if one.name != "inst_001"]
    [session] = (story / "sessions").glob("*.jsonl")
    assert done.stdout == json.loads(session.read_bytes().splitlines()[-1])["content"]


@pytest.mark.parametrize("page", PAGES)
def test_every_route_the_page_names_is_there(served: Served, page: str) -> None:
    described = httpx.get(f"{served.url}/openapi.json", timeout=SECONDS).json()["paths"]
    named = re.findall(r"`(GET|POST) (/api/[^`?\s]*)", _page(page))
    assert len(named) >= 5
    for method, path in named:
        assert method.lower() in described.get(path, {}), (method, path)


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_every_picture_of_the_readme_is_there(page: str) -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", _page(page))
    assert pictures
    for picture in pictures:
        assert (PROJECT / picture).is_file(), picture
