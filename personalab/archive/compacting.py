"""Prompts and answer checks for compacting a long conversation into a short account.

The model receives the entries in pieces, each with the account so far, and answers with an account of
everything up to that point as JSON. The answer is validated here, because a model may answer anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from personalab.archive.veloca import ArchiveEntry, CompactedDialogue
from personalab.archive.veloca_compaction import CompactionMaterial
from personalab.dialogue import (
    AnswerSchema,
    Message,
    indented,
    indented_block,
    is_in,
    language_among,
    object_in,
    object_schema,
    text_schema,
)
from personalab.errors import Invalid, UserError
from personalab.reasoning import split_reasoning
from personalab.texts import PromptLanguage, fill

MAX_SUMMARY = 6_000
"""Maximum characters of a model's account; one by a person or a program may be longer."""
_LEAST_SUMMARY = 500
_SHOWN_ARGUMENTS = 500
"""Maximum characters shown of a tool call's arguments."""
_SHORT = 400
"""A refusal is not longer."""
_REFUSES = re.compile(
    r"\W*(?:i['’]?m sorry|i am sorry|sorry\b|i (?:cannot|can['’]?t|can not|am unable|['’]m unable)|as an ai\b"
    r"|(?:很|非常)?抱歉|对不起|我(?:无法|不能)|作为(?:一个)?(?:AI|人工智能))",
    re.IGNORECASE,
)
"""How a model begins that will not do it; an account tells of others, and begins with them."""

Count = Callable[[str], int]
Templates = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CompactionPart:
    """Entries that a model can read at once, or a part of a long one; numbered from 1."""

    text: str
    first: int
    last: int


# --- what the model reads


def piece_tokens(max_total_tokens: int) -> int:
    """Return the number of tokens of the conversation that a prompt may carry."""
    return max_total_tokens // 4


def summary_limit(max_total_tokens: int) -> int:
    """Return the maximum characters of an account that leave room for what follows it."""
    return max(_LEAST_SUMMARY, min(MAX_SUMMARY, max_total_tokens // 8))


def language_of(entries: Iterable[ArchiveEntry]) -> PromptLanguage | None:
    """Return the language in which the user writes, or else all of them do."""
    said = [(entry.role, entry.message) for entry in entries]
    mine = language_among(message for role, message in said if role == "user")
    return mine or language_among(message for _, message in said)


def fingerprint(entries: Iterable[ArchiveEntry], summaries: Iterable[CompactedDialogue]) -> str:
    """Return a digest of an account's sources, to detect changes."""
    told = [[entry.entry_id, entry.role, entry.message, entry.tools] for entry in entries]
    before = [[summary.entry_id, summary.summary] for summary in summaries]
    return hashlib.sha256(json.dumps([told, before]).encode("ascii")).hexdigest()


def check_unchanged(material: CompactionMaterial, seen: str) -> None:
    """Refuse material that has changed since it had a fingerprint."""
    if fingerprint(material.entries, material.summaries) != seen:
        raise UserError("archive_changed", session_id=material.session_id)


def cut_into_pieces(
    entries: Sequence[ArchiveEntry], before: str, count: Count, budget: int
) -> list[CompactionPart]:
    """Group entries so that each piece fits; an entry that is too long is split, nothing is left out.

    An account so far that leaves no room for more is told in pieces, too, as number 0.
    """
    told = [(0, "summary: ", indented(before))] if count(before) > budget else []
    told += [
        (number, f"[{number}] {entry.role}: ", _body(entry)) for number, entry in enumerate(entries, start=1)
    ]
    pieces: list[CompactionPart] = []
    gathered: list[tuple[int, str]] = []
    used = 0
    for number, head, body in told:
        for part in _parts(body, count, max(budget - count(head), 1)):
            cost = count(head + part)
            if gathered and used + cost > budget:
                pieces.append(_piece(gathered))
                gathered, used = [], 0
            gathered.append((number, head + part))
            used += cost
    return [*pieces, _piece(gathered)] if gathered else pieces


def first_account(before: str, count: Count, budget: int) -> str:
    """Return the account that the first piece follows: the one so far, if there is room for it."""
    return before if count(before) <= budget else ""


def _piece(gathered: Sequence[tuple[int, str]]) -> CompactionPart:
    return CompactionPart("\n".join(text for _, text in gathered), gathered[0][0], gathered[-1][0])


def _body(entry: ArchiveEntry) -> str:
    """Word an entry so that none of its lines can be taken for a heading or another speaker."""
    calls = [
        f"(tool {call['function']['name']}: {call['function']['arguments'][:_SHOWN_ARGUMENTS]})"
        for call in (entry.tools or {}).get("tool_calls", [])
    ]
    said = split_reasoning(entry.message)[1] if entry.role == "assistant" else entry.message
    return indented("\n".join([said, *calls] if said else calls))


def _parts(text: str, count: Count, budget: int) -> list[str]:
    """Cut a text into parts that each fit."""
    parts: list[str] = []
    while (cost := count(text)) > budget and len(text) > 1:
        length = max(1, len(text) * budget // cost)
        while length > 1 and count(text[:length]) > budget:
            length = length * 9 // 10
        parts.append(text[:length])
        text = text[length:]
    return [*parts, text]


def compact_messages(piece: CompactionPart, before: str, limit: int, templates: Templates) -> list[Message]:
    """Ask for the account of a piece and of all that came before it."""
    asked = fill(
        templates["compact"],
        before=indented_block(before) or "–",
        first=piece.first,
        last=piece.last,
        conversation=piece.text,
        max_characters=limit,
    )
    return [{"role": "system", "content": templates["compact_system"]}, {"role": "user", "content": asked}]


# --- what the model answers


def account_schema(limit: int) -> AnswerSchema:
    """Return the JSON schema of the account that ``read_account`` reads."""
    return AnswerSchema("account", object_schema(summary=text_schema(at_most=limit)))


def read_account(answer: str, limit: int, language: PromptLanguage | None) -> str:
    """Read the account in an answer; ``ValueError`` says what is wrong with it."""
    found = object_in(answer, "summary").get("summary")
    if not isinstance(found, str) or not found.strip():
        raise Invalid("summary_missing")
    text = found.strip()
    if len(text) > limit:
        raise Invalid("summary_too_long", count=len(text), limit=limit)
    if len(text) <= _SHORT and _REFUSES.match(text):
        raise Invalid("summary_refused")
    if language is not None and not is_in(language, text):
        raise Invalid("summary_language", language=language)
    return text
