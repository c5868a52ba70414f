"""The prompt of a turn: its sections, their order and their token counts.

The prompt is a list of sections in the source's order: the head (who, where, which outline) and the middle
(reminder, recalled events, conversation). It has two forms: messages that a provider can cache (the head is
the system message, example dialogues and the history follow unchanged from turn to turn, and what concerns
only this turn comes with the last message), and the source's single text.

A prompt far over its limit is never sent, so it is not counted completely: its counts are then lower bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Literal, Protocol, cast

from personalab.config import Config
from personalab.dialogue import Message
from personalab.errors import UserError
from personalab.story.director import MarkedPoint
from personalab.story.events import Notice
from personalab.story.macros import ExampleBlock
from personalab.story.transcript import Turn
from personalab.texts import fill

HEAD_WARNING_TOKENS = 4_096
NEAR_LIMIT_SHARE = 0.9
FAR_OVER = 4
"""A prompt this many times over its limit is counted no further."""
_KEPT_CHARACTERS = 50_000
"""The text of a longer turn is put together again when it is needed: kept, it would double the memory."""
_SPEAKERS = {"user": "User", "assistant": "Assistant"}

EXAMPLES = "example_dialogue"
"""The section that is dropped first."""

Zone = Literal["head", "middle"]
Templates = Mapping[str, str]


class Count(Protocol):
    """Counts the tokens of a text; above ``most`` it may stop and return what the text has at least."""

    def __call__(self, text: str, most: int | None = None) -> int:
        """Count the tokens of a text."""
        ...


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of the prompt with its heading; ``parts`` joined are its text, blank line at the end."""

    name: str
    zone: Zone
    parts: tuple[str, ...]
    tokens: int
    is_counted: bool = True
    """Whether all of it was counted; if not, it has at least so many tokens."""

    @property
    def text(self) -> str:
        """The section's text in the single text."""
        return "".join((*self.parts[:-1], self.parts[-1].rstrip("\n")))


@dataclass(frozen=True, slots=True)
class PromptMaterial:
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
    """The instructions at the beginning."""
    post_history: str = ""
    """The instructions at the end."""
    lore_before: str = ""
    lore_after: str = ""
    """What lorebooks say, before and after who the character is."""
    examples: Sequence[ExampleBlock] = ()
    """Example dialogues, left out where they would make the prompt too long."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of one turn."""

    sections: tuple[PromptPart, ...]
    messages: tuple[Message, ...]
    first_turn: int
    """The number of the oldest turn that is in it."""
    dropped: tuple[str, ...] = ()
    """The sections that were left out because the prompt would have been too long."""

    @property
    def is_counted(self) -> bool:
        """Whether all of it was counted; if not, its counts are what it has at least."""
        return all(section.is_counted for section in self.sections)

    def zone_tokens(self, zone: Zone) -> int:
        """Count the tokens of the head or of the middle."""
        return sum(section.tokens for section in self.sections if section.zone == zone)

    def token_report(self, limit: int) -> dict[str, Any]:
        """Return the number of tokens of each section."""
        head, middle = self.zone_tokens("head"), self.zone_tokens("middle")
        return {
            "total": head + middle,
            "head": head,
            "middle": middle,
            "limit": limit,
            "is_counted": self.is_counted,
            "sections": {section.name: section.tokens for section in self.sections},
        }

    def text(self) -> str:
        """Return the source's single text."""
        return "\n\n".join(section.text for section in self.sections)


def assemble(material: PromptMaterial, templates: Templates, count: Count, config: Config) -> Prompt:
    """Assemble the sections, newest turns first where the conversation must fit a budget."""
    render = _Renderer(templates, _Tally(count, FAR_OVER * config.max_total_tokens))
    start = 0
    if not config.conversation_load_all:
        start = window_start(material.turns, templates, count, config.conversation_max_tokens)
    turns = [*material.turns[start:-1], *(turn.unanswered() for turn in material.turns[-1:])]
    past = _past_of(turns, templates, count) if start == 0 else _Past()
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
    conversation = render.conversation(turns, past)
    if start == 0 and conversation is not None and conversation.is_counted:
        past = _grown(past, turns, templates, count)
    last = render.plain("post_history_instructions", "middle", material.post_history)
    sections = [section for section in (*head, *notes, conversation, last) if section is not None]
    shown = render.examples(material.examples)
    dropped = shown is not None and not _has_room(shown, sections, notes, config.max_total_tokens)
    said = _Said(
        "\n\n".join(section.text for section in head if section),
        () if dropped else material.examples,
        turns,
        past,
        [note.text for note in notes if note],
        last.text if last else "",
    )
    if shown is not None and not dropped:
        sections.insert(sum(section is not None for section in head), shown)
    left_out = (EXAMPLES,) if dropped else ()
    return Prompt(tuple(sections), _messages(said, templates), turns[0].number if turns else 0, left_out)


def _has_room(
    examples: PromptPart, sections: Sequence[PromptPart], notes: Sequence[PromptPart | None], limit: int
) -> bool:
    """Return whether the examples fit, with room for the notes of other turns.

    Near the limit, examples that came and went with the notes would change the cached part of the prompt each time.
    """
    total = examples.tokens + sum(section.tokens for section in sections)
    lasting = total - sum(note.tokens for note in notes if note is not None)
    return total <= limit and lasting <= limit * NEAR_LIMIT_SHARE


def _outline_json(outline: Sequence[MarkedPoint]) -> str:
    rows = ",\n".join("    " + json.dumps(point, ensure_ascii=False) for point in outline)
    return '{\n  "story_outline": [\n' + rows + "\n  ]\n}"


@dataclass(slots=True)
class _Tally:
    """Counts texts until they are far over the limit; what comes after is not counted."""

    count: Count
    left: int

    def text(self, text: str) -> tuple[int, bool]:
        """Count a text; return its tokens and whether all of it was counted."""
        return self._taken(self.count(text, self.left)) if self.left >= 0 else (0, False)

    def turns(self, turns: Sequence[Turn], past: _Past, templates: Templates) -> tuple[int, bool]:
        """Count turns, the newest first; those that were counted before are not counted again."""
        before = self.left
        self._take_turns(turns[past.size :], templates)
        if past.tokens <= self.left:
            self.left -= past.tokens
        else:
            self._take_turns(turns[: past.size], templates)
        return before - self.left, self.left >= 0

    def _take_turns(self, turns: Sequence[Turn], templates: Templates) -> None:
        key = _tokens_key(templates, self.count)
        for turn in reversed(turns):
            if self.left < 0:
                break
            known = cast("tuple[int, int] | None", turn.memo.get(key))
            if known is not None and known[0] <= known[1]:
                self.left -= known[0]
            else:
                self.left -= turn_tokens(turn, templates, self.count, self.left)

    def _taken(self, tokens: int) -> tuple[int, bool]:
        self.left -= tokens
        return tokens, self.left >= 0


@dataclass(frozen=True, slots=True)
class _Renderer:
    templates: Templates
    tally: _Tally

    def section(self, name: str, zone: Zone, params: Mapping[str, str] | None = None) -> PromptPart | None:
        """Fill a section's template; one that is given only empty values is left out."""
        if params is not None and not any(value.strip() for value in params.values()):
            return None
        return self.plain(name, zone, fill(self.templates[name], **(params or {})))

    def lore(self, name: str, entries: str) -> PromptPart | None:
        """Fill the lorebooks' template; the two places differ only in their position."""
        return self.plain(name, "head", fill(self.templates["lorebook"], entries=entries) if entries else "")

    def plain(self, name: str, zone: Zone, text: str) -> PromptPart | None:
        """Make a section of a text; a blank one is left out."""
        body = text.strip("\n")
        if not body.strip():
            return None
        text = body + "\n\n"
        return PromptPart(name, zone, (text,), *self.tally.text(text))

    def examples(self, blocks: Sequence[ExampleBlock]) -> PromptPart | None:
        """Render the example dialogues, each under its note."""
        shown = (
            "\n".join(
                filter(
                    str.strip,
                    (
                        self.templates["example_start"],
                        *(f"{_SPEAKERS[m['role']]}: {m['content']}" for m in block),
                    ),
                )
            )
            for block in blocks
        )
        text = "\n\n".join(shown)
        return self.section(EXAMPLES, "head", {"examples": text}) if blocks else None

    def conversation(self, turns: Sequence[Turn], past: _Past) -> PromptPart | None:
        """Render the turns; a turn's text and count are worked out once. The newest are counted first."""
        if not turns:
            return None
        heading = self.templates["conversation"].strip("\n") + "\n"
        tokens, is_whole = self.tally.text(heading)
        more, is_counted = self.tally.turns(turns, past, self.templates)
        texts = (heading, *past.texts, *(turn_text(turn, self.templates) for turn in turns[past.size :]))
        return PromptPart("conversation", "middle", texts, tokens + more, is_whole and is_counted)


def turn_text(turn: Turn, templates: Templates) -> str:
    """Render a turn as the single text shows it; it ends with a blank line, so that counts add up exactly."""
    key = _text_key(templates)
    found = turn.memo.get(key)
    if found is None:
        rows = [fill(templates["summary_line"], content=note.content) for note in turn.notes]
        rows.append(fill(templates["turn"], turn=turn.number))
        if turn.user is not None:
            rows.append(f"User: {turn.user.content}")
        if (answer := turn.answer) is not None:
            rows.append(f"Assistant: {answer}")
        found = "\n".join(row.rstrip("\n") for row in rows) + "\n\n"
        if len(found) <= _KEPT_CHARACTERS:
            turn.memo[key] = found
    return cast("str", found)


def _text_key(templates: Templates) -> object:
    return ("text", templates["turn"], templates["summary_line"])


def turn_tokens(turn: Turn, templates: Templates, count: Count, most: int) -> int:
    """Count a turn's text once for each vocabulary and language; above ``most``, it has at least so many."""
    key = _tokens_key(templates, count)
    found = cast("tuple[int, int] | None", turn.memo.get(key))
    if found is None or found[1] < found[0] <= most:
        found = turn.memo[key] = (count(turn_text(turn, templates), most), most)
    return found[0]


def _tokens_key(templates: Templates, count: Count) -> object:
    return ("tokens", count, templates["turn"], templates["summary_line"])


def uncounted_characters(turns: Sequence[Turn], templates: Templates, count: Count) -> int:
    """Return the number of characters in turns that were not counted yet."""
    key = _tokens_key(templates, count)
    return sum(turn.characters for turn in turns if key not in turn.memo)


# --- a long session's past


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """The first turns of a session, put together once: a turn of a long session only adds to them."""

    key: object = None
    """What the texts and counts depend on beside the turns."""
    turns: tuple[Turn, ...] = ()
    """The turns after the first one, which keeps all this in its memo."""
    size: int = 0
    tokens: int = 0
    texts: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


def _past_of(turns: Sequence[Turn], templates: Templates, count: Count) -> _Past:
    """Find what was put together of the first turns; never of the last one, which may still change."""
    key = _tokens_key(templates, count)
    past = cast("_Past | None", turns[0].memo.get(_Past)) if turns else None
    if past is None or past.key != key or past.size >= len(turns):
        return _Past(key)
    # The newest of them was the last one in a preview, and may have had another reply since.
    newest = turns[past.size - 1].memo.get(_text_key(templates))
    is_same = newest is past.texts[-1] and all(map(is_, past.turns, turns[1:]))
    return past if is_same else _Past(key)


def past_turns(turns: Sequence[Turn], templates: Templates, count: Count) -> int:
    """Return how many of the first turns need no more work."""
    return _past_of(turns, templates, count).size


def _grown(past: _Past, turns: Sequence[Turn], templates: Templates, count: Count) -> _Past:
    """Add the turns before the last one, all of which were counted, up to one whose text is too long to be kept."""
    key, new = _text_key(templates), list[Turn]()
    for turn in turns[past.size : -1]:
        if key not in turn.memo:
            break
        new.append(turn)
    if not new:
        return past
    messages = list(past.messages)
    for turn in new:
        for message in _turn_messages(turn, templates):
            _add(messages, message)
    size = past.size + len(new)
    grown = turns[0].memo[_Past] = _Past(
        past.key,
        tuple(turns[1:size]),
        size,
        past.tokens + sum(turn_tokens(turn, templates, count, 0) for turn in new),
        (*past.texts, *(turn_text(turn, templates) for turn in new)),
        tuple(messages),
    )
    return grown


# --- messages


def window_start(turns: Sequence[Turn], templates: Templates, count: Count, budget: int) -> int:
    """Find where the newest whole turns that fit a budget begin; the last turn is always in."""
    left = budget
    for at in range(len(turns) - 1, -1, -1):
        left -= turn_tokens(turns[at], templates, count, left)
        if left < 0:
            return min(at + 1, len(turns) - 1)
    return 0


@dataclass(frozen=True, slots=True)
class _Said:
    """What the messages are made of."""

    system: str
    examples: Sequence[ExampleBlock]
    turns: Sequence[Turn]
    past: _Past
    notes: Sequence[str]
    last: str


def _messages(parts: _Said, templates: Templates) -> tuple[Message, ...]:
    """Make the messages; only the last one may hold what belongs to this turn alone."""
    turns, notes, last = parts.turns, parts.notes, parts.last
    said: list[Message] = [{"role": "system", "content": parts.system}] if parts.system else []
    for block in parts.examples:
        _add_note(said, templates, "example_start", is_needed=block[0]["role"] == "assistant")
        for message in block:
            _add(said, message)
    if parts.examples:
        _add_note(said, templates, "example_end", is_needed=_opens_unasked(turns))
    elif _opens_unasked(turns):  # many models insist that a user speaks first
        _add_note(said, templates, "opening", is_needed=True)
    for message in parts.past.messages[:1]:
        _add(said, message)
    said += parts.past.messages[1:]
    for turn in turns[parts.past.size : -1]:
        for message in _turn_messages(turn, templates):
            _add(said, message)
    for message in _turn_messages(turns[-1], templates) if turns else ():
        if notes and message["role"] == "user":
            content = fill(templates["turn_note"], notes="\n\n".join(notes), user_input=message["content"])
            message = Message(role="user", content=content)
            notes = ()
        if last and message["role"] == "user":
            content = _with_last_note(message["content"], last, templates["last_note"])
            message = Message(role="user", content=content)
        _add(said, message)
    return tuple(said)


def with_reminder(messages: Sequence[Message], reminder: str) -> list[Message]:
    """Add a reminder to the end of the last message."""
    reminded = list(messages)
    if not reminder.strip():
        return reminded
    _add(reminded, {"role": "user", "content": reminder})
    return reminded


def _add_note(said: list[Message], templates: Templates, name: str, *, is_needed: bool) -> None:
    """Add a message of a template; a blank one only where a user has to speak between two others."""
    content = templates[name]
    if not content.strip():
        if not is_needed or (said and said[-1]["role"] == "user"):
            return
        content = templates.get(f"{name}.shipped", "…")
    _add(said, {"role": "user", "content": content})


def _with_last_note(said: str, instructions: str, template: str) -> str:
    """Put the last instructions after what was said; brackets of their own are not put in brackets again."""
    if "[{instructions}]" in template and _is_bracketed(instructions):
        instructions = instructions.strip()[1:-1]
    return fill(template, said=said, instructions=instructions)


def _is_bracketed(text: str) -> bool:
    """Return whether one pair of brackets holds all of a text."""
    text = text.strip()
    depth = 0
    for at, character in enumerate(text, 1):
        depth += (character == "[") - (character == "]")
        if depth <= 0:
            return at == len(text) > 1
    return False


def _opens_unasked(turns: Sequence[Turn]) -> bool:
    """Return whether the character spoke first."""
    return bool(turns) and turns[0].user is None and not turns[0].notes and turns[0].answer is not None


def _add(said: list[Message], message: Message) -> None:
    """Add a message; two of one role in a row become one, for many models insist on taking turns."""
    if said and said[-1]["role"] == message["role"]:
        joined = said[-1]["content"] + "\n\n" + message["content"]
        said[-1] = Message(role=message["role"], content=joined)
    else:
        said.append(message)


def _turn_messages(turn: Turn, templates: Templates) -> tuple[Message, ...]:
    key = _messages_key(templates)
    found = turn.memo.get(key)
    if found is None:
        found = turn.memo[key] = tuple(_fresh_messages(turn, templates))
    return cast("tuple[Message, ...]", found)


def _messages_key(templates: Templates) -> object:
    return ("messages", templates["summary_line"])


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
        raise UserError("prompt_too_long", actual=total if prompt.is_counted else f"{total}+", limit=limit)
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
