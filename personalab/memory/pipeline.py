"""The pipeline that turns a conversation into memory: three questions to a model, and checks of its answers.

modify: what is worth remembering. update: what that does to the profile and the events. mind: what the person
seems to think and feel. Whatever the model answers, a fact needs a message as its source, and only code
changes the memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast

from personalab.dialogue import (
    AnswerSchema,
    Message,
    Schema,
    any_schema,
    choice_schema,
    indented,
    is_in,
    language_among,
    list_in,
    list_of,
    list_schema,
    object_in,
    object_schema,
    share_schema,
    text_schema,
    whole_number_schema,
    whole_numbers,
)
from personalab.errors import BadRecord, Invalid, Reason, as_reason
from personalab.memory.changes import VERBS, Operation
from personalab.memory.records import (
    MAX_ENTRY,
    ContentType,
    Conversation,
    Memory,
    MemoryEntry,
    check_entry,
    clean,
)
from personalab.reasoning import split_reasoning
from personalab.texts import PromptLanguage, fill

Count = Callable[[str], int]
Templates = Mapping[str, str]
Stage = Literal["modify", "update", "theory_of_mind"]

MAX_FACTS = 60
MAX_OPERATIONS = 60
MAX_INSIGHTS = 4_000
MAX_REASON = 500
MAX_SOURCES = 20
"""Maximum source messages requested for a fact; more are read, too."""
_ASKED_TEXT, _ASKED_REASON = 400, 200
"""Maximum characters of an entry and of a reason requested from a model; longer ones are read, too."""
_NAMED = 10
_SHOWN_SHARE = 4
"""One part in so many of the conversation's room goes to what is known already."""
_CHARACTERS_A_TOKEN = 8
"""Hardly any text has more, so a longer one need not be tried whole."""
_PROVIDER = re.compile(
    r"^(?:openai|anthropic|azure_\w+|google_\w+|(?:anthropic_)?bedrock\w*|cohere|fireworks|together|mistralai|huggingface"
    r"|groq|ollama|deepseek|ibm|nvidia|xai|openrouter|perplexity|upstage|baseten|litellm|scripted|local):(?=.)"
)
"""Prefixes before the colon of a model's name that are not a part of the name itself."""
_LETTERS: dict[ContentType, str] = {"profile": "p", "event": "e", "mind": "m"}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something a model said that was not taken, and why."""

    what: str
    reason: Reason

    def fields(self) -> dict[str, str]:
        """Return its JSON object; files hold the reason in English."""
        return {"what": self.what, "reason": str(self.reason)}


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth remembering, and the messages that say it."""

    text: str
    content_type: ContentType
    messages: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {"text": self.text, "type": self.content_type, "messages": list(self.messages)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Fact:
        """Read back what ``fields`` gave."""
        return cls(data["text"], data["type"], tuple(data["messages"]))


@dataclass(frozen=True, slots=True)
class Findings:
    """What a conversation has that is worth remembering."""

    facts: tuple[Fact, ...]
    dropped: tuple[Dropped, ...] = ()

    def text(self) -> str:
        """Return it as text in the form of ``modification_result``."""
        return "\n".join(f"- {fact.text} {list(fact.messages)}" for fact in self.facts)


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """What a model wants changed."""

    operations: tuple[Operation, ...]
    dropped: tuple[Dropped, ...] = ()
    insights: str = ""
    confidence_score: float = 0.0


@dataclass(frozen=True, slots=True)
class ShownEntries:
    """The entries a model gets to see, by the labels it names them with."""

    entries: Mapping[str, MemoryEntry]

    def text(self) -> str:
        """List them."""
        return "\n".join(f"{label}. {indented(entry.text)}" for label, entry in self.entries.items()) or "–"


@dataclass(frozen=True, slots=True)
class ShownConversation:
    """The conversation as a model gets to see it, and which messages are cut."""

    text: str
    cut: tuple[int, ...] = ()

    def dropped(self) -> tuple[Dropped, ...]:
        """Return what the model was not shown."""
        if not self.cut:
            return ()
        numbers = ", ".join(f"[{number}]" for number in self.cut[:_NAMED])
        more = "" if len(self.cut) <= _NAMED else f" … ({len(self.cut)})"
        return (Dropped(numbers + more, Reason("messages_cut")),)


# --- what the model reads


def shown_entries(
    memory: Memory, types: Sequence[ContentType], about: str, count: Count, budget: int
) -> ShownEntries:
    """Choose the entries to show: those that share words with what is new come first, then the newest."""
    wanted = _pairs(about)
    ranked = sorted(
        (entry for entry in memory.entries if entry.content_type in types),
        key=lambda entry: (len(wanted & _pairs(entry.text)), entry.updated_at, entry.position),
        reverse=True,
    )
    chosen: set[str] = set()
    for entry in ranked:
        budget -= count(entry.text) + 4
        if budget < 0:
            break
        chosen.add(entry.content_id)
    labelled: dict[str, MemoryEntry] = {}
    for content_type in types:
        for number, entry in enumerate(memory.of(content_type), start=1):
            if entry.content_id in chosen:
                labelled[f"{_LETTERS[content_type]}{number}"] = entry
    return ShownEntries(labelled)


def _pairs(text: str) -> set[str]:
    letters = [character for character in text.casefold() if character.isalnum()]
    return {one + other for one, other in pairwise(letters)}


def language_of(conversation: Conversation) -> PromptLanguage | None:
    """Return the language in which the user writes."""
    return language_among(message.content for message in conversation.messages if message.role == "user")


def shown_messages(conversation: Conversation, count: Count, budget: int) -> ShownConversation:
    """Number the messages; where they are too long together, the older ones are cut first, each at its end."""
    texts = [
        indented(split_reasoning(message.content)[1] if message.role == "assistant" else message.content)
        for message in conversation.messages
    ]
    names = [f"[{message.message_index}] {message.role}: " for message in conversation.messages]
    longest = max(map(len, texts), default=0)

    def said(length: int, whole: int) -> ShownConversation:
        """Cut all but the newest so many messages to a length."""
        older = len(texts) - whole
        shown = [_cut(text, length) if at < older else text for at, text in enumerate(texts)]
        cut = tuple(
            message.message_index
            for message, text, full in zip(conversation.messages, shown, texts, strict=True)
            if text != full
        )
        return ShownConversation("\n".join(map("".join, zip(names, shown, strict=True))), cut)

    def fits(found: ShownConversation) -> bool:
        return count(found.text) <= budget

    if sum(map(len, texts)) <= budget * _CHARACTERS_A_TOKEN and fits(everything := said(longest, 0)):
        return everything
    newest = _newest([f"{name}{text}" for name, text in zip(names, texts, strict=True)], count, budget // 2)
    whole = newest if fits(said(1, newest)) else 0
    low, high = 1, max(1, min(longest, budget * _CHARACTERS_A_TOKEN))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(said(middle, whole)) else (low, middle - 1)
    return said(low, whole)


def _newest(rows: Sequence[str], count: Count, budget: int) -> int:
    """Return the number of newest rows that fit."""
    for kept, row in enumerate(reversed(rows)):
        if len(row) > budget * _CHARACTERS_A_TOKEN or (budget := budget - count(row) - 1) < 0:
            return kept
    return len(rows)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def modify_messages(conversation: str, known: str, templates: Templates) -> list[Message]:
    """Ask what is worth remembering."""
    asked = fill(templates["memorize_modify"], conversation=conversation, known=known, max_facts=MAX_FACTS)
    return _asked(asked, templates)


def update_messages(
    conversation: str, shown: ShownEntries, facts: Sequence[Fact], templates: Templates
) -> list[Message]:
    """Ask what the facts do to what is known."""
    rows = "\n".join(f"- [{fact.content_type}] {fact.text} {list(fact.messages)}" for fact in facts)
    asked = fill(
        templates["memorize_update"], conversation=conversation, known=shown.text(), facts=rows or "–"
    )
    return _asked(asked, templates)


def mind_messages(
    conversation: str, profile: str, shown: ShownEntries, templates: Templates
) -> list[Message]:
    """Ask what the person seems to think and feel."""
    asked = fill(
        templates["memorize_mind"], conversation=conversation, profile=profile or "–", known=shown.text()
    )
    return _asked(asked, templates)


def _asked(text: str, templates: Templates) -> list[Message]:
    return [{"role": "system", "content": templates["memorize_system"]}, {"role": "user", "content": text}]


# --- what the model answers


class Reader:
    """Describes and reads answers about one conversation; ``ValueError`` says what does not fit."""

    def __init__(self, conversation: Conversation) -> None:
        self._sayable = {
            message.message_index for message in conversation.messages if message.role != "system"
        }
        self._language: PromptLanguage | None = language_of(conversation)

    # --- their schemas

    def findings_schema(self) -> AnswerSchema:
        """Return the JSON schema of what ``findings`` reads."""
        fact = object_schema(
            text=text_schema(at_most=MAX_ENTRY),
            type=choice_schema(("profile", "event")),
            messages=self._sources_schema(),
        )
        return AnswerSchema("facts", object_schema(facts=list_schema(fact, at_most=MAX_FACTS)))

    def changes_schema(self, shown: ShownEntries, types: Sequence[ContentType]) -> AnswerSchema:
        """Return the JSON schema of what ``read_changes`` reads."""
        return AnswerSchema("operations", object_schema(operations=self._operations_schema(shown, types)))

    def minds_schema(self, shown: ShownEntries) -> AnswerSchema:
        """Return the JSON schema of what ``minds`` reads."""
        schema = object_schema(
            insights=text_schema(at_least=0, at_most=MAX_INSIGHTS),
            confidence_score=share_schema(),
            operations=self._operations_schema(shown, ("mind",)),
        )
        return AnswerSchema("insights", schema)

    def _operations_schema(self, shown: ShownEntries, types: Sequence[ContentType]) -> Schema:
        """Describe operations; entries can be replaced and removed only where some were shown."""
        text = {"text": text_schema(at_most=_ASKED_TEXT)}
        basis = {"reason": text_schema(at_least=0, at_most=_ASKED_REASON), "messages": self._sources_schema()}
        kind = {"type": choice_schema(types)} if len(types) > 1 else {}
        forms = [object_schema(op=choice_schema(("add",)), **kind, **text, **basis)]
        if labels := [label for label, entry in shown.entries.items() if entry.content_type in types]:
            target = {"target": choice_schema(labels)}
            forms.append(object_schema(op=choice_schema(("replace",)), **target, **text, **basis))
            forms.append(object_schema(op=choice_schema(("remove",)), **target, **basis))
        return list_schema(any_schema(forms), at_most=MAX_OPERATIONS)

    def _sources_schema(self) -> Schema:
        return list_schema(whole_number_schema(self._sayable), at_least=1, at_most=MAX_SOURCES)

    # --- what they say

    def findings(self, answer: str) -> Findings:
        """Read what is worth remembering."""
        given = list_in(answer, "facts")
        if len(given) > MAX_FACTS:
            raise Invalid("facts_over", count=len(given), limit=MAX_FACTS)
        facts: list[Fact] = []
        dropped: list[Dropped] = []
        for place, data in enumerate(given, start=1):
            fields = _fields(data, "fact", place)
            kind = fields.get("type")
            if kind not in ("profile", "event"):
                raise Invalid("fact_type", place=place)
            text = _text(fields, "fact", place)
            messages = self._messages(fields, "fact", place)
            if messages:
                facts.append(Fact(text, kind, messages))
            else:
                dropped.append(Dropped(text, Reason("no_source_message")))
        self._check_language(
            [*(fact.text for fact in facts), *(row.what for row in dropped)], "the facts are"
        )
        return Findings(tuple(facts), tuple(dropped))

    def read_changes(
        self, answer: str, shown: ShownEntries, types: Sequence[ContentType]
    ) -> RequestedChanges:
        """Read operations on the lists of these types."""
        return self._read_changes(list_in(answer, "operations"), shown, types)

    def _read_changes(
        self, given: Sequence[object], shown: ShownEntries, types: Sequence[ContentType]
    ) -> RequestedChanges:
        if len(given) > MAX_OPERATIONS:
            raise Invalid("operations_over", count=len(given), limit=MAX_OPERATIONS)
        operations: list[Operation] = []
        dropped: list[Dropped] = []
        for place, data in enumerate(given, start=1):
            wish = self._operation(_fields(data, "operation", place), place, shown, types)
            if isinstance(wish, Dropped):
                dropped.append(wish)
            else:
                operations.append(wish)
        texts = [wish.text for wish in operations if wish.verb != "remove"]
        self._check_language(texts, "the operations are")
        return RequestedChanges(tuple(operations), tuple(dropped))

    def minds(self, answer: str, shown: ShownEntries) -> RequestedChanges:
        """Read insights, how sure they are, and operations on the mind list."""
        found = object_in(answer, "insights")
        insights, score = found.get("insights"), _score(found.get("confidence_score"))
        if not isinstance(insights, str):
            raise Invalid("no_text", field="insights")
        if len(insights) > MAX_INSIGHTS:
            raise Invalid("quoted_too_long", field="insights", count=len(insights), limit=MAX_INSIGHTS)
        if score is None:
            raise Invalid("field_not_share", field="confidence_score")
        self._check_language([insights], '"insights" is')
        changes = list_of(found, "operations") if found.get("operations") is not None else []
        requested = self._read_changes(changes, shown, ("mind",))
        return RequestedChanges(requested.operations, requested.dropped, clean(insights.strip()), score)

    def _operation(
        self, fields: Mapping[str, Any], place: int, shown: ShownEntries, types: Sequence[ContentType]
    ) -> Operation | Dropped:
        verb = fields.get("op")
        if verb not in VERBS:
            raise Invalid("operation_field", field="op", place=place, known=", ".join(VERBS))
        target: MemoryEntry | None = None
        if verb != "add":
            target = shown.entries.get(str(fields.get("target", "")).strip().rstrip("."))
            if target is None:
                raise Invalid("operation_target", place=place)
        kind = target.content_type if target else fields.get("type", types[0] if len(types) == 1 else None)
        if kind not in types:
            raise Invalid("operation_field", field="type", place=place, known=", ".join(types))
        text = _text(fields, "operation", place) if verb != "remove" else ""
        messages = self._messages(fields, "operation", place)
        if not messages:
            return Dropped(text or (target.text if target else ""), Reason("no_source_message"))
        return Operation(
            verb,
            cast("ContentType", kind),
            text,
            target.content_id if target else "",
            clean(str(fields.get("reason") or ""))[:MAX_REASON],
            messages,
        )

    def _check_language(self, texts: Sequence[str], what: str) -> None:
        """Judge texts together: one may be a name or an address, but not most of them."""
        language = self._language
        filled = [text for text in texts if text.strip()]
        if language is not None and sum(is_in(language, text) for text in filled) * 2 < len(filled):
            raise Invalid("conversation_language", what=what, language=language)

    def _messages(self, fields: Mapping[str, Any], what: str, place: int) -> tuple[int, ...]:
        """Take the messages that exist: an invented number is no source."""
        given = fields.get("messages")
        try:
            numbers = whole_numbers([] if given is None else given)
        except ValueError as error:
            raise Invalid("messages_of", what=what, place=place, reason=as_reason(error)) from error
        return tuple(sorted(set(numbers) & self._sayable))


def _text(fields: Mapping[str, Any], what: str, place: int) -> str:
    """Read the text of an entry; one without a word, such as an ellipsis from an example, is none."""
    try:
        text = check_entry(fields.get("text"))
    except BadRecord as error:
        raise Invalid("text_of", what=what, place=place, reason=error) from error
    if not any(map(str.isalnum, text)):
        raise Invalid("text_without_words", what=what, place=place, shown=text[:40])
    return text


def _score(value: object) -> float | None:
    """Read a number from 0 to 1, which may be written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        score = float(value)
    except (ValueError, OverflowError):
        return None
    return score if 0 <= score <= 1 else None


def _fields(data: object, what: str, place: int) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise Invalid("item_not_object", what=what, place=place)
    return cast("dict[str, Any]", data)


# --- what is kept of it all


def llm_usage(prompt_tokens: int, completion_tokens: int, *, estimated: bool) -> dict[str, Any]:
    """Return a stage's usage as the source does; an estimate says that it is one."""
    metadata: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }
    return {**metadata, "estimated": True} if estimated else metadata


def stage_result(stage: Stage, now: str, usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a stage that ran."""
    times = {"modify": "analyzed_at", "update": "updated_at", "theory_of_mind": "analyzed_at"}
    return {"stage": f"llm_{stage}", times[stage]: now, "llm_usage": dict(usage)}


def pipeline_metadata(
    now: str, conversation: Conversation, model: str, *, profile_updated: bool, truncated: bool = False
) -> dict[str, Any]:
    """Return when, on how much and by which model the pipeline ran."""
    metadata: dict[str, Any] = {
        "execution_time": now,
        "conversation_length": len(conversation.messages),
        "llm_model": _PROVIDER.sub("", model),
        "profile_updated": profile_updated,
    }
    return {**metadata, "truncated": True} if truncated else metadata


def room_for(conversation_tokens: int) -> int:
    """Return the number of tokens that the known entries may take next to a conversation."""
    return max(conversation_tokens // _SHOWN_SHARE, 500)
