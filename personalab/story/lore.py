"""Activation of lorebook entries by the conversation, and the choice of those that fit into the prompt.

An entry is included whole or not at all. Where the budgets are too small, those marked
``@@ignore_on_max_context`` are dropped first, then those of the lowest priority (without priorities, of the
lowest order, as in SillyTavern), constant ones last. Entries of an earlier round stay: an entry that another
one activated never displaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from personalab.config import LoreModule
from personalab.story.lore_entries import (
    NO_LORE,
    LeftOut,
    Lore,
    Lorebook,
    LoreEntry,
    LoreHit,
    PreparedEntry,
    shown_text,
)
from personalab.story.lore_matching import Allowance
from personalab.story.lore_scan import MAX_ROUNDS, Activation, LoreQuery, LoreScan, LoreTrigger

__all__ = ["NO_LORE", "Lore", "LoreEntry", "LoreHit", "Lorebook", "activate"]
_REMEMBERED_COSTS = 4_096
_MOST_MISSES = 16
"""After so many that had no room, with none between that had, the less important ones are not even counted."""
_MOST_FILLED = 2_000_000
"""Maximum characters of entries prepared for the prompt."""
_LONGEST_TOKEN = 64
"""A text of more characters than this for each token there is room for is not even counted."""


def activate(
    books: Sequence[Lorebook],
    said: Sequence[str],
    *,
    module: LoreModule,
    count: Callable[[str], int],
    turn: int,
    fill: Callable[[str], str],
    greeting: int | None = None,
    allowance: Allowance | None = None,
) -> Lore:
    """Call up what the newest messages name, as far as the budgets allow.

    ``said`` is the session, oldest first, the player's input last; ``greeting`` is the number of the greeting the
    story opened with, where that is known. ``allowance`` is the time the search may take.
    """
    if not module.enabled or not books:
        return NO_LORE
    scan = LoreScan(books, LoreQuery(said, module, turn, fill, greeting), allowance)
    budget = _LoreBudget(books, module.max_tokens, count, fill, len(said))
    called: list[Activation] | None = scan.first()
    for _ in range(MAX_ROUNDS):
        entered = budget.admit(called)
        called = scan.after(entered)
        if called is None:
            break
    else:
        budget.admit(called or [])
    return budget.lore(scan)


class _LoreBudget:
    """The room there is for entries, and what was put there or left out."""

    def __init__(
        self,
        books: Sequence[Lorebook],
        room: int,
        count: Callable[[str], int],
        fill: Callable[[str], str],
        messages: int,
    ) -> None:
        self._books = books
        self._count = count
        self._fill = fill
        self._messages = messages
        self._room = room
        self._rooms = [book.token_budget for book in books]
        self._fillable = _MOST_FILLED
        self._texts: set[str] = set()
        self._hits: list[tuple[tuple[float, int, int], LoreHit]] = []

    def admit(self, called: Sequence[Activation]) -> list[tuple[Activation, str]]:
        """Admit the entries that fit, the most important first; return them with their texts."""
        entered: list[tuple[Activation, str]] = []
        misses = 0
        for one in sorted(called, key=_rank):
            text, tokens, left_out = self._evaluate(one) if misses < _MOST_MISSES else ("", 0, "budget")
            misses = 0 if not left_out else misses + (left_out == "budget")
            if not left_out:
                self._texts.add(text)
                self._room -= tokens
                own = self._rooms[one.book]
                self._rooms[one.book] = None if own is None else own - tokens
            if left_out in ("", "empty"):
                entered.append((one, text))
            hit = self._hit(one.book, one.one, one.call, left_out, tokens, text)
            self._hits.append(((one.one.entry.order, one.book, one.place), hit))
        return entered

    def _evaluate(self, called: Activation) -> tuple[str, int, LeftOut]:
        if called.lost:
            return "", 0, "group"
        self._fillable -= len(called.one.text)
        if self._fillable < 0:
            return "", 0, "budget"
        text = shown_text(called.one, self._fill)
        if not text:
            return "", 0, "empty"
        if text in self._texts:
            return text, 0, "duplicate"
        if len(text) > _LONGEST_TOKEN * self._room:
            return "", 0, "budget"
        tokens = self._cost(called.book, text)
        own = self._rooms[called.book]
        if own is not None and tokens > own:
            return text, tokens, "book_budget"
        return text, tokens, "budget" if tokens > self._room else ""

    def _cost(self, book: int, text: str) -> int:
        """Count an entry with the end of its line, once for each way of counting."""
        known = self._books[book].costs
        asked = (self._count, text)
        found = known.get(asked)
        if found is None:
            if len(known) >= _REMEMBERED_COSTS:
                known.clear()
            found = known[asked] = self._count(text + "\n")
        return found

    def _hit(
        self,
        book: int,
        one: PreparedEntry,
        call: LoreTrigger,
        left_out: LeftOut,
        tokens: int = 0,
        text: str = "",
    ) -> LoreHit:
        entry, decorators = one.entry, one.decorators
        position = decorators.position
        if position is None and decorators.depth is not None:
            position = "before_char" if decorators.depth > self._messages else "after_char"
        return LoreHit(
            self._books[book].name,
            entry.entry_id,
            entry.name,
            position or entry.position,
            entry.order,
            call.why,
            call.key,
            call.ago,
            call.caller,
            tokens,
            shown=not left_out,
            left_out=left_out,
            content=text,
        )

    def lore(self, scan: LoreScan) -> Lore:
        """Arrange what is shown; the hits tell it first, then what was left out."""
        hits = [hit for _, hit in sorted(self._hits, key=lambda pair: pair[0])]
        before = [hit for hit in hits if hit.shown and hit.position == "before_char"]
        after = [hit for hit in hits if hit.shown and hit.position == "after_char"]
        hidden = [hit for hit in hits if not hit.shown]
        bad = [
            self._hit(key.book, key.one, LoreTrigger("pattern", key.key), key.reason) for key in scan.bad_keys
        ]
        unfinished = [_unfinished(self._books[number]) for number in scan.unfinished]
        return Lore(
            "\n".join(hit.content for hit in before),
            "\n".join(hit.content for hit in after),
            (*before, *after, *hidden, *bad, *unfinished),
        )


def _unfinished(book: Lorebook) -> LoreHit:
    """Return a hit that reports a book which was not searched completely."""
    return LoreHit(book.name, "", book.name, "before_char", 0, "search", shown=False, left_out="search_slow")


def _rank(called: Activation) -> tuple[bool, bool, float, float, int, int]:
    """Order by importance: what comes last goes first where there is no room."""
    entry = called.one.entry
    priority = entry.order if entry.priority is None else entry.priority
    return (
        called.one.decorators.ignore_on_max_context,
        not called.one.always,
        -priority,
        -entry.order,
        called.book,
        called.place,
    )
