"""Which entries of the lorebooks does what was said call up, and which of them fit into the prompt?

An entry is in whole or not at all. Where the budgets are too small, those marked ``@@ignore_on_max_context`` go
first, then those of the lowest priority (where there is none, of the lowest order, as SillyTavern has it), constant
ones last. What entered in an earlier round stays: an entry that another one called up never drives it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from personalab.config import LoreModule
from personalab.story.lore_entries import NO_LORE, LeftOut, Lore, Lorebook, LoreEntry, LoreHit, Prepared
from personalab.story.lore_scan import MAX_ROUNDS, BadKey, Call, Called, Scan, Situation

__all__ = ["NO_LORE", "Lore", "LoreEntry", "LoreHit", "Lorebook", "activate"]
_REMEMBERED_COSTS = 4_096
_MOST_MISSES = 16
"""After so many in a row that had no room, the less important ones are not even counted."""


def activate(
    books: Sequence[Lorebook],
    said: Sequence[str],
    *,
    module: LoreModule,
    count: Callable[[str], int],
    turn: int,
    fill: Callable[[str], str],
    greeting: int | None = None,
) -> Lore:
    """Call up what the newest messages name, as far as the budgets allow.

    ``said`` is the session, oldest first, the player's input last; ``greeting`` is the number of the greeting the
    story opened with, where that is known.
    """
    if not module.enabled or not books:
        return NO_LORE
    scan = Scan(books, Situation(said, module, turn, fill, greeting))
    shelf = _Shelf(books, module.max_tokens, count, len(said))
    called: list[Called] | None = scan.first()
    for _ in range(MAX_ROUNDS):
        entered = shelf.admit(called)
        called = scan.after(entered)
        if called is None:
            break
    else:
        shelf.admit(called or [])
    return shelf.lore(scan.bad_keys)


class _Shelf:
    """The room there is for entries, and what was put there or left out."""

    def __init__(
        self, books: Sequence[Lorebook], room: int, count: Callable[[str], int], messages: int
    ) -> None:
        self._books = books
        self._count = count
        self._messages = messages
        self._room = room
        self._rooms = [book.token_budget for book in books]
        self._texts: set[str] = set()
        self._hits: list[tuple[tuple[float, int, int], LoreHit]] = []

    def admit(self, called: Sequence[Called]) -> list[Called]:
        """Let in what there is room for, the most important first."""
        entered: list[Called] = []
        misses = 0
        for one in sorted(called, key=_rank):
            tokens, left_out = self._judge(one) if misses < _MOST_MISSES else (0, "budget")
            misses = misses + 1 if left_out == "budget" else 0
            if not left_out:
                self._texts.add(one.text)
                self._room -= tokens
                own = self._rooms[one.book]
                self._rooms[one.book] = None if own is None else own - tokens
            if left_out in ("", "empty"):
                entered.append(one)
            hit = self._hit(one.book, one.one, one.call, left_out, tokens, one.text)
            self._hits.append(((one.one.entry.order, one.book, one.place), hit))
        return entered

    def _judge(self, called: Called) -> tuple[int, LeftOut]:
        if called.lost:
            return 0, "group"
        if not called.text:
            return 0, "empty"
        if called.text in self._texts:
            return 0, "duplicate"
        tokens = self._cost(called)
        own = self._rooms[called.book]
        if own is not None and tokens > own:
            return tokens, "book_budget"
        return tokens, "budget" if tokens > self._room else ""

    def _cost(self, called: Called) -> int:
        """Count an entry with the end of its line, once for each way of counting."""
        known = self._books[called.book].costs
        asked = (self._count, called.text)
        found = known.get(asked)
        if found is None:
            if len(known) >= _REMEMBERED_COSTS:
                known.clear()
            found = known[asked] = self._count(called.text + "\n")
        return found

    def _hit(
        self, book: int, one: Prepared, call: Call, left_out: LeftOut, tokens: int = 0, text: str = ""
    ) -> LoreHit:
        entry, wishes = one.entry, one.wishes
        position = wishes.position
        if position is None and wishes.depth is not None:
            position = "before_char" if wishes.depth > self._messages else "after_char"
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

    def lore(self, bad_keys: Sequence[BadKey]) -> Lore:
        """Arrange what is shown; the hits tell it first, then what was left out."""
        hits = [hit for _, hit in sorted(self._hits, key=lambda pair: pair[0])]
        before = [hit for hit in hits if hit.shown and hit.position == "before_char"]
        after = [hit for hit in hits if hit.shown and hit.position == "after_char"]
        hidden = [hit for hit in hits if not hit.shown]
        bad = [self._hit(key.book, key.one, Call("pattern", key.key), key.reason) for key in bad_keys]
        return Lore(
            "\n".join(hit.content for hit in before),
            "\n".join(hit.content for hit in after),
            (*before, *after, *hidden, *bad),
        )


def _rank(called: Called) -> tuple[bool, bool, float, float, int, int]:
    """Order by importance: what comes last goes first where there is no room."""
    entry = called.one.entry
    priority = entry.order if entry.priority is None else entry.priority
    return (
        called.one.wishes.ignore_on_max_context,
        not called.one.always,
        -priority,
        -entry.order,
        called.book,
        called.place,
    )
