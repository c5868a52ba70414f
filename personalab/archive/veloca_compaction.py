"""Compaction of Veloca sessions: the entries that a summary replaces, the prompts for it, the context, and undo.

A compacted dialogue replaces everything in its session before its trigger entry. Of those in use, the ones
with the latest trigger are shown; a later one includes an earlier one's summary in its own. Each names the
entries that it compacted in ``personalab.compacted`` and the dialogues that it includes in
``personalab.superseded``, so that an undo restores what it alone summarized.

A model receives the entries in pieces, each with the account so far, and answers with an account of everything
up to that point as JSON. The answer is validated here, because a model may answer anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from personalab.archive.veloca import (
    COMPACTED,
    NORMAL,
    NOT_COMPACTED,
    OWN,
    UNUSED,
    ArchiveEntry,
    CompactedDialogue,
    Record,
    Role,
)
from personalab.archive.veloca_archive import Archive, made
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
from personalab.errors import BadRecord, Invalid, NotFound, UserError
from personalab.reasoning import split_reasoning
from personalab.texts import PromptLanguage, fill

KEPT_ENTRIES = 4
"""Number of last entries that are not compacted if no trigger is named: two exchanges."""


@dataclass(frozen=True, slots=True)
class CompactionMaterial:
    """What a summary would be made of."""

    session_id: str
    trigger_entry_id: str
    entries: tuple[ArchiveEntry, ...]
    """The entries that would be compacted."""
    summaries: tuple[CompactedDialogue, ...]
    """The summaries of earlier entries that would be superseded: the new summary covers them, too."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a model should see of a session."""

    session_id: str
    summaries: tuple[CompactedDialogue, ...]
    entries: tuple[ArchiveEntry, ...]

    def messages(self) -> list[dict[str, Any]]:
        """Return it as messages with role, content and tools: the summaries first, as the system's."""
        role: Role = "system"
        told = [{"role": role, "content": found.summary, "tools": None} for found in self.summaries]
        said = [
            {"role": entry.role, "content": entry.message, "tools": entry.tools} for entry in self.entries
        ]
        return [*told, *said]


def context_of(archive: Archive, session_id: str) -> Context:
    """Collect what a model should see: the summaries in force, then the entries from their trigger on."""
    archive.live_session(session_id)
    entries = list(archive.entries(session_id))
    start, summaries = _in_force(archive, entries, session_id)
    return Context(session_id, tuple(summaries), tuple(entry for entry in entries[start:] if entry.is_seen))


def material_of(archive: Archive, session_id: str, trigger_entry_id: str | None = None) -> CompactionMaterial:
    """Collect what a compaction before the trigger would sum up.

    Without a trigger, the last ``KEPT_ENTRIES`` stay, and more of them until the first that stays is the user's.
    """
    archive.live_session(session_id)
    entries = list(archive.entries(session_id))
    start, summaries = _in_force(archive, entries, session_id)
    if trigger_entry_id is None:
        at = _default_trigger(entries, start, session_id)
    else:
        at = _place(archive, entries, session_id, trigger_entry_id)
    if at < start:
        raise BadRecord(
            "archive_trigger_early", entry_id=entries[at].entry_id, latest=entries[start].entry_id
        )
    found = tuple(entry for entry in entries[:at] if entry.is_seen)
    if not found:
        raise BadRecord("archive_nothing_to_compact", session_id=session_id)
    superseded = summaries if at > start else []
    return CompactionMaterial(session_id, entries[at].entry_id, found, tuple(superseded))


def compacted(material: CompactionMaterial, summary: str, dialogue_id: str, now: str) -> list[Record]:
    """Return the records that a compaction writes: the compacted entries, and the summary."""
    dialogue = made(
        "compacted_dialogues",
        {
            "entry_id": dialogue_id,
            "trigger_entry_id": material.trigger_entry_id,
            "summary": summary,
            "create_at": now,
            "status": NORMAL,
        },
        {
            OWN: {
                "compacted": [entry.entry_id for entry in material.entries],
                "superseded": [summary.entry_id for summary in material.summaries],
            }
        },
    )
    return [*(replace(entry, is_compaction=COMPACTED) for entry in material.entries), dialogue]


def undone(archive: Archive, dialogue_id: str) -> list[Record]:
    """Return the records that an undo writes: the dialogue as unused, and the entries that no other one tells."""
    dialogue = archive.dialogue(dialogue_id)
    if dialogue.status != NORMAL:
        raise BadRecord("archive_already_undone", dialogue_id=dialogue_id)
    unused = replace(dialogue, status=UNUSED)
    try:
        session_id = archive.entry(dialogue.trigger_entry_id).session_id
    except NotFound:
        return [unused]
    entries = list(archive.entries(session_id))
    of_session = archive.dialogues(session_id)
    others = [other for other in of_session if other.status == NORMAL and other.entry_id != dialogue_id]
    back = _told([dialogue], of_session, entries) - _told(others, of_session, entries)
    return [
        *(
            replace(entry, is_compaction=NOT_COMPACTED)
            for entry in entries
            if entry.is_compaction == COMPACTED and entry.entry_id in back
        ),
        unused,
    ]


def _told(
    dialogues: list[CompactedDialogue], of_session: list[CompactedDialogue], entries: list[ArchiveEntry]
) -> set[str]:
    """Name the entries that some dialogues tell: those they compacted, and those of the ones they superseded.

    What was superseded counts though it was undone since: its summary has been taken in. Another program's dialogue
    may tell any entry before its trigger.
    """
    by_id = {found.entry_id: found for found in of_session}
    places = {entry.entry_id: place for place, entry in enumerate(entries)}
    told: set[str] = set()
    seen: set[str] = set()
    left = list(dialogues)
    while left:
        found = left.pop()
        if found.entry_id in seen:
            continue
        seen.add(found.entry_id)
        listed = _own_ids(found, "compacted")
        if listed is None:
            told.update(entry.entry_id for entry in entries[: places[found.trigger_entry_id]])
        else:
            told.update(listed)
        left += [by_id[name] for name in _own_ids(found, "superseded") or () if name in by_id]
    return told


def _own_ids(dialogue: CompactedDialogue, name: str) -> list[str] | None:
    own = dialogue.extra.get(OWN)
    listed = cast("dict[str, Any]", own).get(name) if isinstance(own, dict) else None
    if not isinstance(listed, list):
        return None
    return [found for found in cast("list[object]", listed) if isinstance(found, str)]


def _in_force(
    archive: Archive, entries: list[ArchiveEntry], session_id: str
) -> tuple[int, list[CompactedDialogue]]:
    """Find the dialogues that are shown, and the place of their trigger."""
    live = [found for found in archive.dialogues(session_id) if found.status == NORMAL]
    if not live:
        return 0, []
    places = {entry.entry_id: place for place, entry in enumerate(entries)}
    start = max(places[found.trigger_entry_id] for found in live)
    return start, [found for found in live if places[found.trigger_entry_id] == start]


def _default_trigger(entries: list[ArchiveEntry], start: int, session_id: str) -> int:
    seen = [place for place, entry in enumerate(entries) if place >= start and entry.is_seen]
    if len(seen) <= KEPT_ENTRIES:
        raise BadRecord("archive_nothing_to_compact", session_id=session_id)
    latest = len(seen) - KEPT_ENTRIES
    asked = (place for place in reversed(seen[1 : latest + 1]) if entries[place].role == "user")
    return next(asked, seen[latest])


def _place(archive: Archive, entries: list[ArchiveEntry], session_id: str, entry_id: str) -> int:
    trigger = archive.entry(entry_id)
    if trigger.session_id != session_id:
        raise BadRecord("archive_trigger_other", entry_id=entry_id, session_id=session_id)
    if trigger.status != NORMAL:
        raise BadRecord("archive_trigger_deleted", entry_id=entry_id)
    return entries.index(trigger)


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

    If the account so far leaves no room for more, it is split into pieces as well, as number 0.
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
