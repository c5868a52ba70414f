"""The placeholders and example dialogues that authors leave in a character's texts.

``{{char}}`` and ``<BOT>`` are the character, ``{{user}}`` and ``<USER>`` the person who plays, whatever their case.
``{{original}}`` is what an instruction replaces. ``{{random:a,b}}``, ``{{pick:a,b}}`` and ``{{roll:6}}`` choose by a
hash of the text they stand in: a prompt that changed from turn to turn could neither be shown beforehand nor cached.

Names are data: they are inserted last and never expanded, on one line, and cannot look like a heading of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from personalab.config import Config
from personalab.dialogue import HEADING, Message, Role
from personalab.story.records import one_line
from personalab.texts import Language, say

NAME_PLACEHOLDER = r"(?:\{\{\s*(?:char|user)\s*\}\}|<(?:bot|user|char)>)"
_NAMES = re.compile(NAME_PLACEHOLDER, re.IGNORECASE)
_ORIGINAL = re.compile(r"\{\{\s*original\s*\}\}", re.IGNORECASE)
_NOTE = re.compile(r"\{\{\s*(?:(?://|comment\s*:)[^{}]*|noop\s*)\}\}", re.IGNORECASE)
_NOTE_WITH_NAMES = re.compile(
    r"\{\{\s*(?:(?://|comment\s*:)(?:[^{}]|\{\{\s*(?:char|user)\s*\}\})*|noop\s*)\}\}", re.IGNORECASE
)
_CHOICE = re.compile(r"\{\{\s*(random|pick|roll|reverse)\s*[:\s]([^{}]*)\}\}", re.IGNORECASE)
_DICE = re.compile(r"\s*(?:(\d{0,2})d)?(\d{1,9})\s*(?:\+\s*(\d{1,9})\s*)?", re.IGNORECASE)
_BREAK = re.compile(r"\{\{\s*newline\s*\}\}", re.IGNORECASE)
_TRIM = re.compile(r"\n*\{\{\s*trim\s*\}\}\n*", re.IGNORECASE)
_MARK = "\x00"
"""Begins a name's placeholder until everything else is expanded."""
_STAND_IN = re.compile(f"{_MARK}(.)", re.DOTALL)
_UNIT = re.compile(f"{_MARK}.|.", re.DOTALL)
_MOST_GROWTH = 100_000
"""Names make a text longer by no more characters than this: what is left stays as it was written."""


@dataclass(frozen=True, slots=True)
class Names:
    """Who the two of a story are."""

    character: str
    player: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "character", one_line(self.character))
        object.__setattr__(self, "player", one_line(self.player))

    def fill(self, text: str) -> str:
        """Settle what is left to chance, leave out what authors noted for themselves, and insert the names last."""
        if "{{" not in text and "<" not in text:
            return text
        most = max(_MOST_GROWTH // max(len(self.character), len(self.player), 1), 1)
        marked = text.replace(_MARK, f"{_MARK}m")
        marked = _NAMES.sub(lambda found: _stand_in(found[0]), marked, count=most)
        if "{{" in marked:
            marked = _CHOICE.sub(_chooser(text), _NOTE.sub("", marked))
            marked = _TRIM.sub("", _BREAK.sub("\n", marked))
        if _MARK not in marked:
            return marked
        names = {"c": self.character, "u": self.player}
        names |= {"C": self.character[::-1], "U": self.player[::-1]}
        values = {role: _shown(name) for role, name in names.items()}
        return _STAND_IN.sub(lambda found: values.get(found[1], _MARK), marked)


def _stand_in(placeholder: str) -> str:
    return f"{_MARK}u" if "user" in placeholder.lower() else f"{_MARK}c"


def _shown(name: str) -> str:
    """Quote a name that would be a heading of the prompt at the beginning of a line."""
    return f"“{name}”" if HEADING.match(name) else name


def _reversed(text: str) -> str:
    """Reverse a text; a name in it is reversed when it is inserted."""
    units: list[str] = _UNIT.findall(text)
    return "".join(unit.swapcase() if unit[0] == _MARK else unit for unit in reversed(units))


def _chooser(text: str) -> Callable[[re.Match[str]], str]:
    """Decide a random choice by its position and its text."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def choose(found: re.Match[str]) -> str:
        kind, given = found[1].lower(), found[2]
        if kind == "reverse":
            return _reversed(given.strip())

        def below(limit: int, which: int = 0) -> int:
            place = f"{found.start()} {which}".encode("ascii")
            return int.from_bytes(blake2b(digest + place, digest_size=8).digest(), "big") % limit

        if kind == "roll":
            return _rolled(given, below) or found[0]
        words = given[1:].split("::") if given.startswith(":") else re.split(r"(?<!\\),", given)
        return words[below(len(words))].replace("\\,", ",").strip()

    return choose


def _rolled(given: str, below: Callable[[int, int], int]) -> str:
    """Throw one die (``6``, ``d6``) or several (``2d6``); blank where these are none."""
    dice = _DICE.fullmatch(given)
    if dice is None or not (sides := int(dice[2])):
        return ""
    thrown = sum(below(sides, which) + 1 for which in range(int(dice[1] or 1)))
    return str(thrown + int(dice[3] or 0))


def player_name(config: Config, language: Language) -> str:
    """Return the player's name: the one that was set, or a plain word."""
    return one_line(config.player_name) or say("player", language)


def without_notes(text: str) -> str:
    """Leave out what authors noted for themselves, also notes that mention a name."""
    return _NOTE_WITH_NAMES.sub("", text) if "{{" in text else text


def replaced(text: str, original: str) -> str:
    """Return an instruction that replaces another one, which it may quote; a blank one keeps the other."""
    if not text.strip():
        return original
    return _ORIGINAL.sub(lambda _: original, text)


ExampleBlock = tuple[Message, ...]
"""One example dialogue."""

_START = re.compile(r"<START>", re.IGNORECASE)
_PLAYER_PREFIXES = ("user", "you", "player", "anon", "玩家", "用户", "你")
_CHARACTER_PREFIXES = ("char", "character", "assistant", "bot", "角色")
_NAME_PARTS = re.compile(r"[\s·•・]+")
_SHORTEST_PART = 2


def parse_examples(text: str, names: Names) -> tuple[ExampleBlock, ...]:
    """Split a text at ``<START>`` and each block at its speakers; text without a speaker is the character's.

    A speaker is a name or its placeholder with a colon at the beginning of a line; the lines that follow belong to
    it. Names are inserted last, so that none of them can end a block or speak for the other.
    """
    if not text.strip():
        return ()
    speakers = _speakers(names)
    known = "|".join(map(re.escape, sorted(speakers, key=len, reverse=True)))
    prefix = re.compile(
        rf"[ \t]*[*_]*({NAME_PLACEHOLDER}|{known})[*_]*[ \t]*[:：][*_]*[ \t]*",
        re.IGNORECASE,
    )
    said = (_block(block, prefix, speakers) for block in _START.split(without_notes(text)))
    blocks = (_without_gaps([_filled(message, names) for message in block]) for block in said)
    return tuple(block for block in blocks if block)


def _filled(message: Message, names: Names) -> Message:
    return Message(role=message["role"], content=names.fill(message["content"]).strip())


def _speakers(names: Names) -> dict[str, Role]:
    """List what may stand before a colon, in lower case, and who speaks then; the two names come before the rest."""
    player, character = names.player.casefold(), names.character.casefold()
    first = _NAME_PARTS.split(character)[0]
    found: dict[str, Role] = {}
    for name in (character, first if len(first) >= _SHORTEST_PART and first != player else ""):
        found.setdefault(name, "assistant")
    found.setdefault(player, "user")
    for name in _PLAYER_PREFIXES:
        found.setdefault(name, "user")
    for name in _CHARACTER_PREFIXES:
        found.setdefault(name, "assistant")
    found.pop("", None)
    return found


def _block(text: str, prefix: re.Pattern[str], speakers: dict[str, Role]) -> list[Message]:
    said: list[tuple[Role, list[str]]] = [("assistant", [])]
    for row in text.splitlines():
        if (found := prefix.match(row)) is not None:
            name = found[1].casefold()
            role: Role = speakers.get(name) or ("user" if "user" in name else "assistant")
            row = row[found.end() :]
            if role != said[-1][0]:
                said.append((role, []))
        said[-1][1].append(row.rstrip())
    return [Message(role=role, content="\n".join(rows).strip()) for role, rows in said]


def _without_gaps(messages: Sequence[Message]) -> ExampleBlock:
    """Leave out blank messages, and join those of one role that come together so."""
    block: list[Message] = []
    for message in messages:
        if not message["content"]:
            continue
        if block and block[-1]["role"] == message["role"]:
            message = Message(role=message["role"], content=f"{block.pop()['content']}\n{message['content']}")
        block.append(message)
    return tuple(block)
