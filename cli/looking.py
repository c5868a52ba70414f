"""Terminal output for recalled events and for the next prompt."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from cli.markers import marker_style, styled
from cli.output import (
    BOLD,
    CYAN,
    DIM,
    RED,
    YELLOW,
    bar,
    is_terminal,
    masked,
    note,
    paint,
    short,
    warn,
    write,
    write_json,
)
from cli.running import Refusal, language_of
from cli.texts import tell
from personalab.app import Application
from personalab.config import Config
from personalab.story.prompt import HEAD_WARNING_TOKENS, PromptPart
from personalab.texts import Language, say

if TYPE_CHECKING:
    from graph.preview import Preview
    from personalab.operations.recall import Depth
    from personalab.services import Services


# --- recall


async def show_recalled(
    services: Services, instance_id: str, query: str, depth: Depth, count: int, *, as_json: bool
) -> None:
    """Print what is found in a story's past, with where it came from and why."""
    found = await Application(services).recall(instance_id, query, depth, count)
    if as_json:
        write_json([event.model_dump() for event in found])
        return
    language = await asyncio.to_thread(language_of, services)
    if not found:
        note(tell("nothing_found", language))
    style = await asyncio.to_thread(marker_style, services)
    for number, event in enumerate(found, start=1):
        place = tell("source", language, session_id=event.session_id, turns=_turns(event.turns, language))
        write(f"{paint(f'{number}.', CYAN)} {styled(event.text, style)}")
        write(paint(f"   {event.kind} · {place} · {tell('reason', language, reason=event.reason)}", DIM))


def _turns(turns: list[int] | None, language: Language) -> str:
    if not turns:
        return tell("turns_unknown", language)
    first, last = turns
    return tell("turns_one" if first == last else "turns_range", language, first=first, last=last)


# --- the prompt


async def show_prompt(
    services: Services,
    instance_id: str,
    text: str,
    section: str | None,
    *,
    whole: bool,
    messages: bool,
    as_json: bool,
) -> None:
    """Print what the next turn would send: counted, one section, the single text or the messages."""
    from graph.preview import preview_prompt

    found = await preview_prompt(services, instance_id, text)
    preferences = await asyncio.to_thread(services.preferences.read)
    language = await asyncio.to_thread(language_of, services)
    if as_json:
        write_json(_as_json(found))
    elif section is not None:
        for warning in found.warnings:
            warn(warning, language)
        write(_plain(_section(found, section)))
        return
    elif whole:
        write(_plain(found.prompt.text()))
    elif messages:
        for message in found.prompt.messages:
            write(f"{paint(message['role'], BOLD)}\n{_plain(message['content'])}\n")
    else:
        write("\n".join(prompt_rows(found, preferences.config, language)))
        note(paint(tell("see_section", language), DIM))
    for warning in found.warnings:
        warn(warning, language)


def _plain(text: str) -> str:
    """Keep a story's text from colouring the screen; into a file it goes as it is."""
    return masked(text) if is_terminal(sys.stdout) else text


def _section(found: Preview, name: str) -> str:
    for section in found.prompt.sections:
        if section.name == name:
            return section.text
    raise Refusal("no_section", name=name, known=", ".join(section.name for section in found.prompt.sections))


def _as_json(found: Preview) -> dict[str, Any]:
    sections = [
        {"name": section.name, "zone": section.zone, "tokens": section.tokens, "text": section.text}
        for section in found.prompt.sections
    ]
    return {
        "turn": found.turn,
        "sections": sections,
        "messages": list(found.prompt.messages),
        "text": found.prompt.text(),
        "tokens": found.tokens,
        "recalled": found.recalled,
        "lore": found.lore,
        "warnings": found.warnings,
    }


def prompt_rows(found: Preview, config: Config, language: Language) -> list[str]:
    """Lay out the sections with their tokens, and the zones against their limits."""
    rows = [paint(tell("prompt_head", language, turn=found.turn, encoding=found.tokens["encoding"]), BOLD)]
    largest = max((section.tokens for section in found.prompt.sections), default=1)
    for section in found.prompt.sections:
        title = paint(say(f"section.{section.name}", language), DIM)
        shown = paint(bar(section.tokens, largest), CYAN)
        rows.append(f"  {section.name:<26}{section.tokens:>8}  {shown}  {title}")
        if section.name.startswith("lorebook_"):
            rows += [_lore_row(hit, language) for hit in found.lore if hit["shown"] and _is_in(hit, section)]
    rows += [paint(_lore_row(hit, language), YELLOW) for hit in found.lore if not hit["shown"]]
    head, middle = found.prompt.zone_tokens("head"), found.prompt.zone_tokens("middle")
    limits = [
        ("head", head, HEAD_WARNING_TOKENS),
        ("middle", middle, config.middle_section_warning_tokens),
        ("total", head + middle, config.max_total_tokens),
    ]
    for name, value, limit in limits:
        colour = RED if value > limit else YELLOW if value >= limit * 0.9 else CYAN
        more = "+" if name == "total" and not found.prompt.is_counted else ""
        share = tell("tokens_of", language, value=f"{value:,}{more}", limit=f"{limit:,}")
        rows.append(f"{tell(f'zone_{name}', language)}  {paint(bar(value, limit), colour)}  {share}")
    return rows


def _is_in(hit: dict[str, Any], section: PromptPart) -> bool:
    return section.name == f"lorebook_{hit['position']}"


def _lore_row(hit: dict[str, Any], language: Language) -> str:
    """Describe an entry: why it was activated, and why it is left out if it is."""
    now = "_now" if hit["why"] == "key" and hit.get("ago") == 0 else ""
    why = tell(f"lore_{hit['why']}{now}", language, **hit)
    if not hit["shown"]:
        why += tell("lore_left_out", language, reason=tell(f"lore_{hit['left_out']}", language))
    name = short(hit["name"] or hit["entry"], 30)
    return f"    · {name} [{short(hit['book'], 20)}] {hit['tokens']}  {paint(masked(why), DIM)}"
