"""Example dialogues: the blocks of a card's ``mes_example``, read as messages of the player and the character."""

from __future__ import annotations

import re
from collections.abc import Sequence

from personalab.dialogue import Message, Role
from personalab.story.macros import NAME_PLACEHOLDER, Names, without_notes

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
