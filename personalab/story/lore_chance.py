"""Deterministic chance of lore entries, the same for every reader of a turn."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from personalab.story.lore_entries import LoreEntry


def thrown(book: str, entry_id: str, turn: int, what: str = "") -> float:
    """Throw the die of an entry: a number from 0 to below 1 that depends on the turn alone."""
    named = "\n".join((book, entry_id, str(turn), what)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=6).digest(), "big") / 2**48


def losers(called: Sequence[tuple[str, LoreEntry]], taken: set[str], turn: int) -> set[int]:
    """Return the entries, given with their books, that lose to another of their group; ``taken`` groups have a winner.

    Of a group one entry stands: the one of the highest order among those that insist, else one that is drawn by weight.
    """
    groups: dict[str, list[int]] = {}
    for place, (_, entry) in enumerate(called):
        for group in entry.groups:
            groups.setdefault(group, []).append(place)
    lost: set[int] = set()
    for group, places in sorted(groups.items()):
        left = [place for place in places if place not in lost]
        if group in taken:
            lost.update(left)
        elif left:
            taken.add(group)
            winner = _winner(called, left, turn, group)
            lost.update(place for place in left if place != winner)
    return lost


def _winner(called: Sequence[tuple[str, LoreEntry]], places: Sequence[int], turn: int, group: str) -> int:
    insisting = [place for place in places if called[place][1].group_override]
    if insisting:
        return max(insisting, key=lambda place: called[place][1].order)
    return min(places, key=lambda place: _arrival(*called[place], turn, group))


def _arrival(book: str, entry: LoreEntry, turn: int, group: str) -> float:
    """Return an entry's arrival time, which depends on its weight alone; the earliest wins."""
    if entry.group_weight <= 0:
        return math.inf
    return -math.log(1 - thrown(book, entry.entry_id, turn, group)) / entry.group_weight
