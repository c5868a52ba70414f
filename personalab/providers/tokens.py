"""Exact token counts without a network.

The two rank files OpenAI publishes are shipped with this module, and tiktoken encodes with them. Nothing is
downloaded, cached or written. A long text is counted in pieces, cut where both vocabularies always begin a
new word: the sum is exact, no piece takes long, and counting can stop when a limit is exceeded.
"""

from __future__ import annotations

import binascii
import gzip
import hashlib
import re
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from personalab.dialogue import well_formed
from personalab.errors import Reason, StorageError, UserError, as_reason

if TYPE_CHECKING:
    from tiktoken import Encoding

VOCABULARIES_AT = Path(__file__).parent / "vocab"

# tiktoken's regex engine overflows its stack (a Rust panic) on about a million blanks in a row.
_LONGEST_BLANK = 500_000
_BLANKS = re.compile(r"\s+")
_CUT = re.compile(
    "[ \n.,!?;:，。！？；：、]"
    "(?<=[A-Za-z0-9\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3][ \n.,!?;:，。！？；：、])"
)
"""Before one of these, after a letter or digit, both patterns always split, whatever stands around them: no alternative
goes on from a letter or digit to them, and none looks back."""
_PIECE_LENGTH = 50_000
_LONGEST_TOKEN = 128
"""No token of either vocabulary has more bytes."""
_REMEMBERED_LENGTH = 20_000
"""Texts up to this length are counted once: the head of a prompt is the same in every turn."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What makes an encoding besides its ranks; copied from ``tiktoken_ext/openai_public.py``."""

    sha256: str
    pattern: str
    special_tokens: dict[str, int]


VOCABULARIES = {
    "cl100k_base": Vocabulary(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"""
        r"""| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k_base": Vocabulary(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "|".join(
            (
                r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
                r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
                r"""\p{N}{1,3}""",
                r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""",
                r"""\s*[\r\n]+""",
                r"""\s+(?!\S)""",
                r"""\s+""",
            )
        ),
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}

_loaded: dict[str, Encoding] = {}
_loading = threading.Lock()


class OfflineCounter:
    """Counts with a shipped vocabulary; it is loaded at the first count, once per process."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        if encoding not in VOCABULARIES:
            raise UserError("unknown_encoding", value=encoding, known=", ".join(sorted(VOCABULARIES)))
        self._name = encoding
        self._remembered = lru_cache(maxsize=512)(self._count)

    @property
    def encoding(self) -> str:
        """The vocabulary's name."""
        return self._name

    def count(self, text: str, most: int | None = None) -> int:
        """Count the tokens of a text; special tokens are plain text, lone surrogates count as U+FFFD.

        A text of more than ``most`` tokens need not be counted to its end: what is returned is then a number above
        ``most`` that the text has at least.
        """
        if len(text) <= _REMEMBERED_LENGTH:
            return self._remembered(text)
        total = 0
        for start, end in pieces_of(text):
            if most is not None and total + (end - start) // _LONGEST_TOKEN > most:
                return total + (end - start) // _LONGEST_TOKEN
            total += self._count(text[start:end])
            if most is not None and total > most:
                break
        return total

    def _count(self, text: str) -> int:
        encoding = _loaded.get(self._name) or load_encoding(self._name)
        if len(text) > _LONGEST_BLANK and _longest_blank(text) > _LONGEST_BLANK:
            return _count_by_words(encoding, text)
        return len(encoding.encode_ordinary(text))


def pieces_of(text: str, length: int = _PIECE_LENGTH) -> Iterator[tuple[int, int]]:
    """Cut a text where a new word begins, as soon as a piece has the length; their counts add up to the text's."""
    start = 0
    while start < len(text):
        end = _next_cut(text, start + length)
        yield start, end
        start = end


def _next_cut(text: str, at: int) -> int:
    """Find the next place to cut, stretch by stretch: a search holds up every other thread."""
    for begin in range(at, len(text), _PIECE_LENGTH):
        if (cut := _CUT.search(text, begin, begin + _PIECE_LENGTH)) is not None:
            return cut.start()
    return len(text)


def encoding_for(model_name: str) -> str:
    """Name the vocabulary of a model, given with or without its provider; the newest where it is unknown."""
    model = model_name.rpartition(":")[2].rpartition("/")[2].lower()
    older = model.startswith(("gpt-4", "gpt-3.5", "gpt-35")) and not model.startswith(
        ("gpt-4o", "gpt-4.1", "gpt-4.5")
    )
    return "cl100k_base" if older else "o200k_base"


def read_ranks(path: Path, sha256: str) -> dict[bytes, int]:
    """Read a packed rank file; one that is missing or not the published one is a ``StorageError``."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError("file_broken", file=path.name, reason=as_reason(error)) from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise StorageError("file_broken", file=path.name, reason=Reason("unpublished_checksum"))
    tokens = raw.split()[::2]  # the published files are in order of rank, from 0 on
    return dict(zip(map(binascii.a2b_base64, tokens), range(len(tokens)), strict=True))


def load_encoding(name: str) -> Encoding:
    """Load a shipped vocabulary, once per process (it takes half a second)."""
    with _loading:
        if name not in _loaded:
            from tiktoken import Encoding

            vocabulary = VOCABULARIES[name]
            _loaded[name] = Encoding(
                name=name,
                pat_str=vocabulary.pattern,
                mergeable_ranks=read_ranks(VOCABULARIES_AT / f"{name}.tiktoken.gz", vocabulary.sha256),
                special_tokens=vocabulary.special_tokens,
            )
        return _loaded[name]


def _longest_blank(text: str) -> int:
    return max((blank.end() - blank.start() for blank in _BLANKS.finditer(text)), default=0)


def _count_by_words(encoding: Encoding, text: str) -> int:
    """Count as tiktoken does, but split with ``regex`` (its own dependency), which has no such stack."""
    import regex

    find_all = cast("Any", regex).findall
    pieces = cast(
        "list[str]", find_all(VOCABULARIES[encoding.name].pattern, well_formed(text), concurrent=True)
    )
    # tiktoken has no public way to encode a piece that is split already.
    encode = encoding._encode_single_piece  # pyright: ignore[reportPrivateUsage]
    return sum(len(encode(piece)) for piece in pieces)
