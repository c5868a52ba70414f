"""What does the model get to read, in which order, and how many tokens is it?

The prompt is a list of sections in the source's order: the head (who, where, which outline) and the middle
(reminder, recalled events, conversation). It leaves in two forms: as messages a provider can cache (the head
is the system message, the history follows unchanged from turn to turn, what concerns this turn alone comes with
the last message) and as the source's single text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from personalab.config import Config
from personalab.dialogue import Message
from personalab.errors import UserError
from personalab.story.director import MarkedPoint
from personalab.story.events import Notice
from personalab.story.transcript import Turn
from personalab.texts import fill

HEAD_WARNING_TOKENS = 4_096
NEAR_LIMIT_SHARE = 0.9

Zone = Literal["head", "middle"]
Count = Callable[[str], int]
Templates = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the prompt with its heading; ``parts`` joined are its text, blank line at the end."""

    name: str
    zone: Zone
    parts: tuple[str, ...]
    tokens: int

    @property
    def text(self) -> str:
        """The section as it stands in the single text."""
        return "".join(self.parts).rstrip("\n")


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a turn's prompt is made of."""

    base_persona: str
    evolved_persona: str
    world_setting: str
    outline: Sequence[MarkedPoint] | None
    reminder: Mapping[str, str] | None
    """What fills the reminder's template, when the model is to be reminded."""
    recalled: Sequence[str]
    turns: Sequence[Turn]
    """The session's turns; the last one is the turn to answer."""
    player: str = ""
    """What is known about the player."""
    system_prompt: str = ""
    """What the model is told before anything else."""
    post_history: str = ""
    """What it is told after everything else."""
    lore_before: str = ""
    lore_after: str = ""
    """What lorebooks say, before and after who the character is."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one turn."""

    sections: tuple[Section, ...]
    messages: tuple[Message, ...]
    first_turn: int
    """The number of the oldest turn that is in it."""

    def zone_tokens(self, zone: Zone) -> int:
        """Count the tokens of the head or of the middle."""
        return sum(section.tokens for section in self.sections if section.zone == zone)

    def token_report(self, limit: int) -> dict[str, Any]:
        """Say how many tokens each section has."""
        head, middle = self.zone_tokens("head"), self.zone_tokens("middle")
        return {
            "total": head + middle,
            "head": head,
            "middle": middle,
            "limit": limit,
            "sections": {section.name: section.tokens for section in self.sections},
        }

    def text(self) -> str:
        """Give the source's single text."""
        return "\n\n".join(section.text for section in self.sections)


def assemble(material: Material, templates: Templates, count: Count, config: Config) -> Prompt:
    """Put the sections together, newest turns first where the conversation has to fit a budget."""
    render = _Renderer(templates, count)
    start = 0
    if not config.conversation_load_all:
        start = window_start(material.turns, templates, count, config.conversation_max_tokens)
    turns = [*material.turns[start:-1], *(turn.unanswered() for turn in material.turns[-1:])]
    head = [
        render.plain("system_prompt", "head", material.system_prompt),
        render.lore("lorebook_before_char", material.lore_before),
        render.section("base_persona", "head", {"base_persona": material.base_persona}),
        render.section("evolved_persona", "head", {"evolved_persona": material.evolved_persona}),
        render.lore("lorebook_after_char", material.lore_after),
        render.section("player_memory", "head", {"known": material.player}),
        render.section("background", "head", {"world_setting": material.world_setting}),
    ]
    if material.outline:
        head.append(render.section("story_outline", "head", {"outline": _outline_json(material.outline)}))
        head.append(render.section("progress_instruction", "head"))
    notes = [
        render.section("director_reminder", "middle", material.reminder or {}),
        render.section(
            "recalled_events", "middle", {"events": "\n".join(f"- {text}" for text in material.recalled)}
        ),
    ]
    conversation = render.conversation(turns)
    last = render.plain("post_history_instructions", "middle", material.post_history)
    sections = [section for section in (*head, *notes, conversation, last) if section is not None]
    system = "\n\n".join(section.text for section in sections if section.zone == "head")
    messages = _messages(system, turns, [note.text for note in notes if note], last, templates)
    return Prompt(tuple(sections), messages, turns[0].number if turns else 0)


def _outline_json(outline: Sequence[MarkedPoint]) -> str:
    rows = ",\n".join("    " + json.dumps(point, ensure_ascii=False) for point in outline)
    return '{\n  "story_outline": [\n' + rows + "\n  ]\n}"


@dataclass(frozen=True, slots=True)
class _Renderer:
    templates: Templates
    count: Count

    def section(self, name: str, zone: Zone, params: Mapping[str, str] | None = None) -> Section | None:
        """Fill a section's template; one that is given only empty values is left out."""
        if params is not None and not any(value.strip() for value in params.values()):
            return None
        return self.plain(name, zone, fill(self.templates[name], **(params or {})))

    def lore(self, name: str, entries: str) -> Section | None:
        """Fill the lorebooks' template; the two places differ only in where they stand."""
        return self.plain(name, "head", fill(self.templates["lorebook"], entries=entries) if entries else "")

    def plain(self, name: str, zone: Zone, text: str) -> Section | None:
        """Make a section of a text; a blank one is left out."""
        body = text.strip("\n")
        if not body.strip():
            return None
        text = body + "\n\n"
        return Section(name, zone, (text,), self.count(text))

    def conversation(self, turns: Sequence[Turn]) -> Section | None:
        """Render the turns; a turn's text and count are worked out once."""
        if not turns:
            return None
        heading = self.templates["conversation"].strip("\n") + "\n"
        parts = [heading, *(turn_text(turn, self.templates) for turn in turns)]
        tokens = self.count(heading) + sum(turn_tokens(turn, self.templates, self.count) for turn in turns)
        return Section("conversation", "middle", tuple(parts), tokens)


def turn_text(turn: Turn, templates: Templates) -> str:
    """Render a turn as the single text shows it; it ends with a blank line, so that counts add up exactly."""
    key = ("text", templates["turn"], templates["summary_line"])
    found = turn.memo.get(key)
    if found is None:
        rows = [fill(templates["summary_line"], content=note.content) for note in turn.notes]
        rows.append(fill(templates["turn"], turn=turn.number))
        if turn.user is not None:
            rows.append(f"User: {turn.user.content}")
        if (answer := turn.answer) is not None:
            rows.append(f"Assistant: {answer}")
        found = turn.memo[key] = "\n".join(row.rstrip("\n") for row in rows) + "\n\n"
    return cast("str", found)


def turn_tokens(turn: Turn, templates: Templates, count: Count) -> int:
    """Count a turn's text once for each vocabulary and language."""
    key = ("tokens", count, templates["turn"], templates["summary_line"])
    found = turn.memo.get(key)
    if found is None:
        found = turn.memo[key] = count(turn_text(turn, templates))
    return cast("int", found)


def window_start(turns: Sequence[Turn], templates: Templates, count: Count, budget: int) -> int:
    """Find where the newest whole turns that fit a budget begin; the last turn is always in."""
    left = budget
    for at in range(len(turns) - 1, -1, -1):
        left -= turn_tokens(turns[at], templates, count)
        if left < 0:
            return min(at + 1, len(turns) - 1)
    return 0


def _messages(
    system: str, turns: Sequence[Turn], notes: Sequence[str], last: Section | None, templates: Templates
) -> tuple[Message, ...]:
    said: list[Message] = [{"role": "system", "content": system}] if system else []
    if _opens_unasked(turns):  # many models insist that a user speaks first
        said.append({"role": "user", "content": templates["opening"]})
    for turn in turns[:-1]:
        for message in _turn_messages(turn, templates):
            _add(said, message)
    for message in _turn_messages(turns[-1], templates) if turns else ():
        if notes and message["role"] == "user":
            content = fill(templates["turn_note"], notes="\n\n".join(notes), user_input=message["content"])
            message = Message(role="user", content=content)
            notes = ()
        if last is not None and message["role"] == "user":
            content = fill(templates["last_note"], said=message["content"], instructions=last.text)
            message = Message(role="user", content=content)
        _add(said, message)
    return tuple(said)


def _opens_unasked(turns: Sequence[Turn]) -> bool:
    """Tell whether the character spoke first."""
    return bool(turns) and turns[0].user is None and not turns[0].notes and turns[0].answer is not None


def _add(said: list[Message], message: Message) -> None:
    """Add a message; two of one role in a row become one, for many models insist on taking turns."""
    if said and said[-1]["role"] == message["role"]:
        joined = said[-1]["content"] + "\n\n" + message["content"]
        said[-1] = Message(role=message["role"], content=joined)
    else:
        said.append(message)


def _turn_messages(turn: Turn, templates: Templates) -> tuple[Message, ...]:
    key = ("messages", templates["summary_line"])
    found = turn.memo.get(key)
    if found is None:
        found = turn.memo[key] = tuple(_fresh_messages(turn, templates))
    return cast("tuple[Message, ...]", found)


def _fresh_messages(turn: Turn, templates: Templates) -> list[Message]:
    notes = [fill(templates["summary_line"], content=note.content) for note in turn.notes]
    spoken = [*notes, *([turn.user.content] if turn.user is not None else [])]
    messages: list[Message] = [{"role": "user", "content": "\n\n".join(spoken)}] if spoken else []
    if (answer := turn.answer) is not None:
        messages.append({"role": "assistant", "content": answer})
    return messages


def check_budget(prompt: Prompt, config: Config) -> list[Notice]:
    """Refuse a prompt over its limit; warn once of each thing that grows too long."""
    head, middle = prompt.zone_tokens("head"), prompt.zone_tokens("middle")
    total, limit = head + middle, config.max_total_tokens
    if total > limit:
        raise UserError("prompt_too_long", actual=total, limit=limit)
    notices: list[Notice] = []
    if middle > config.middle_section_warning_tokens:
        notices.append(_over("middle_section_overflow", middle, config.middle_section_warning_tokens))
    if total >= limit * NEAR_LIMIT_SHARE:
        notices.append(_over("total_near_limit", total, limit))
    if head > HEAD_WARNING_TOKENS:
        notices.append(_over("head_overflow", head, HEAD_WARNING_TOKENS))
    return notices


def _over(category: str, value: int, threshold: int) -> Notice:
    return Notice(category, {"current_value": value, "threshold": threshold}, value, threshold)
