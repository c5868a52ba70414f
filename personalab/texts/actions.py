"""Suggested actions, named as each entrance offers them: commands, places of the page, tools.

A text names one as ``{do:name}``. Placeholders of an action are filled with the parameters of the text around it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from personalab.i18n import Language, Section

Entrance = Literal["terminal", "page", "mcp"]
ENTRANCES: tuple[Entrance, ...] = get_args(Entrance)
ACTIONS = {entrance: Section("actions", entrance) for entrance in ENTRANCES}

_current: ContextVar[Entrance] = ContextVar("entrance", default="terminal")


@contextmanager
def rendering_for(entrance: Entrance) -> Generator[None]:
    """Name actions as an entrance does, in this call and in the tasks that it starts.

    A context variable, because one process serves the page and MCP from the same services.
    """
    token = _current.set(entrance)
    try:
        yield
    finally:
        _current.reset(token)


def action_template(name: str, language: Language) -> str:
    """Return an action as the entrance of the current call offers it."""
    return ACTIONS[_current.get()].templates(language)[name]
