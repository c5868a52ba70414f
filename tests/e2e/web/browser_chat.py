"""Helpers for the chat page in a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tests.support.web.browser import Tab, expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator

STOP = re.compile("Stop|停止")
RETRY = re.compile("Retry|重试")


@dataclass
class Chat:
    """A tab with a chat in it."""

    tab: Tab

    @property
    def input(self) -> Locator:
        """Where one writes."""
        return self.tab.at("main textarea")

    def say(self, text: str) -> None:
        """Write and send."""
        expect(self.input).to_be_enabled()
        self.input.fill(text)
        self.input.press("Enter")

    def turn(self, number: int) -> Locator:
        """A turn, by its number."""
        title = re.compile(rf"^(Turn {number}|第 {number} 轮)$")
        return self.tab.page.get_by_role("article", name=title)

    def reply(self, number: int) -> Locator:
        """The words of a turn's newest reply."""
        return self.turn(number).locator(".said:not(.mine) > .words")

    def stop(self) -> Locator:
        """The button that interrupts."""
        return self.tab.button(STOP, within="main")

    def retry(self) -> Locator:
        """The button that tries again."""
        return self.tab.button(RETRY, within="main")

    def is_whole(self, number: int, text: str) -> None:
        """Wait until a reply is shown whole."""
        expect(self.reply(number)).to_have_text(text)
        expect(self.tab.at(".writing")).to_have_count(0)

    def reasoning(self, number: int) -> Locator:
        """What the model thought before a turn's newest reply."""
        return self.turn(number).locator(".said > .reasoning, :scope > .reasoning")

    def text(self, number: int) -> str:
        """Read a reply as it is shown, its paragraphs joined and its markers spelt as they were written."""
        script = """(words) => {
          const written = words.cloneNode(true);
          for (const marker of written.querySelectorAll('.marker')) marker.replaceWith(marker.title);
          return [...written.children].map((p) => p.textContent).join('\\n\\n');
        }"""
        return cast("str", self.reply(number).evaluate(script))
