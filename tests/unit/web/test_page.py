"""Static tests of the page's code: no markup from text, no external resources, texts in the catalogue, small size."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from personalab.i18n import catalogue, languages
from web.page_files import PAGE, page_texts

SCRIPTS = sorted(PAGE.glob("*.js"))
MARKUP = sorted(PAGE.glob("*.html"))
FILES = sorted(path for path in PAGE.rglob("*") if path.is_file())
PROJECT = PAGE.parents[1]
LARGEST = 250_000
HAN = re.compile("[\u3400-\u9fff]")

# A string, a template, a regular expression after a bracket or an operator, a comment: where brackets mean nothing.
_OPAQUE = re.compile(
    r'"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|`(?:\\.|[^`\\])*`" r"|//[^\n]*" r"|/\*.*?\*/",
    re.DOTALL,
)
_WORDS = re.compile(r'const (\w+) = words\("(\w+)"\)')
WORDS = cast("dict[str, dict[str, str]]", catalogue("en")["page"])


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_comments(script: str) -> str:
    """Leave comments out; they may talk of what code may not do."""
    return _OPAQUE.sub(lambda found: "" if found[0].startswith(("//", "/*")) else found[0], script)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_text_can_become_markup_or_code(path: Path) -> None:
    script = without_comments(read(path))
    for way_in in (
        r"innerHTML",
        r"outerHTML",
        r"insertAdjacentHTML",
        r"document\s*\.\s*write",
        r"\beval\s*\(",
        r"\bFunction\s*\(",
        r"createContextualFragment",
        r"DOMParser",
        r"srcdoc",
        r"setHTMLUnsafe|parseHTMLUnsafe",
        r"setTimeout\(\s*[\"'`]",
        r"javascript:",
        r"""["']?style["']?\s*:\s*["'`]""",
        r"""setAttribute\(\s*["']style""",
        r"cssText",
    ):
        assert not re.search(way_in, script), way_in


@pytest.mark.parametrize("path", MARKUP, ids=lambda path: path.name)
def test_the_markup_has_no_script_style_or_handler_in_it(path: Path) -> None:
    markup = read(path)
    assert not re.search(r"<style|\sstyle\s*=|\son\w+\s*=|javascript:", markup, re.IGNORECASE)
    assert all(re.search(r"\ssrc=", tag) for tag in re.findall(r"<script[^>]*>", markup))


def test_nothing_comes_from_elsewhere() -> None:
    for path in FILES:
        text = without_comments(read(path)) if path.suffix == ".js" else read(path)
        # What is no address anything is fetched from: the name of SVG's vocabulary.
        text = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""["'(=]\s*(?:https?:)?//[a-z0-9]""", text), path.name
        assert "@import" not in text, path.name


def test_what_the_markup_and_the_modules_name_exists() -> None:
    for path in MARKUP:
        for named in re.findall(r'(?:href|src)="([^"#]+)"', read(path)):
            assert named.startswith("/"), named
            assert (
                named in ("/", "/docs", "/openapi.json") or (PAGE / named.removeprefix("/page/")).is_file()
            ), named
    for path in SCRIPTS:
        static = re.findall(r'^(?:import|export)\b[^"\n]* from "([^"]+)"', read(path), re.MULTILINE)
        for named in [*static, *re.findall(r'\bimport\("([^"]+)"\)', read(path))]:
            assert named.startswith("./"), named
            assert (PAGE / named).is_file(), f"{path.name}: {named}"


def is_used(key: str, used: set[str]) -> bool:
    """Tell whether a key stands somewhere, or two words that make it."""
    joints = range(1, len(key))
    return key in used or any(key[:at].rstrip(".") in used and key[at:] in used for at in joints)


def test_every_word_that_is_looked_up_is_known_and_none_is_left_over() -> None:
    # A key may also be put together, or be what the server calls something: then its parts stand somewhere else.
    told = "\n".join(
        read(path) for folder in ("web", "personalab", "graph") for path in (PROJECT / folder).rglob("*.py")
    )
    heard = set(re.findall(r"\w+", told))
    views: set[str] = set()
    for path in SCRIPTS:
        script = without_comments(read(path))
        sharing = [without_comments(read(other)) for other in SCRIPTS if f'"./{path.name}"' in read(other)]
        for name, view in _WORDS.findall(script):
            views.add(view)
            known = set(WORDS[view])
            asked = set(re.findall(rf'\b{name}\(\s*"([\w.]+)"[,)]', script))
            assert asked <= known, (path.name, asked - known)
            used = heard | set(re.findall(r"\w+", "\n".join([script, *sharing])))
            assert not (left := {key for key in known if not is_used(key, used)}), (path.name, left)
    assert views == set(WORDS)


def test_texts_for_people_are_in_the_catalogue_only() -> None:
    for path in SCRIPTS:
        loose = [text for text in _OPAQUE.findall(without_comments(read(path))) if HAN.search(text)]
        assert not loose, (path.name, loose)


def test_the_pages_code_is_small() -> None:
    """Its texts, of which a browser fetches one language, and the page at /docs are counted apart."""
    apart = {path for path in FILES if path.stem == "docs"}
    sizes = {path.name: path.stat().st_size for path in FILES if path not in apart}
    assert sum(sizes.values()) <= LARGEST, sizes
    assert sum(path.stat().st_size for path in apart) <= LARGEST / 10
    assert all(len(page_texts(language)) <= LARGEST / 10 for language in languages())
