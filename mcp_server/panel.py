"""The panel that hosts draw beside a story, with its words in every language."""

from __future__ import annotations

import json
from pathlib import Path

from personalab.i18n import ABOUT, Section, languages

_FILE = Path(__file__).with_name("panel.html")
_WORDS = Section("mcp", "panel")


def panel_html() -> str:
    """Return the panel's page."""
    words = {each: {"tag": ABOUT.say("tag", each), **_WORDS.templates(each)} for each in languages()}
    shown = json.dumps(words, ensure_ascii=False).replace("<", "\\u003c")
    return _FILE.read_text(encoding="utf-8").replace("const WORDS = {};", f"const WORDS = {shown};")
