"""Tests that tokens are counted exactly as tiktoken counts them, without a network."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.errors import StorageError, UserError
from personalab.providers.tokens import (
    VOCABULARIES,
    VOCABULARIES_AT,
    OfflineCounter,
    encoding_for,
    load_encoding,
    pieces_of,
    read_ranks,
)

NAMES = sorted(VOCABULARIES)
SAMPLES = [
    "",
    "Hello, world",
    "我当然记得。（沉默片刻）",
    "[PROGRESS:3:in_progress]",
    "<|endoftext|> and <|endofprompt|>",
    "a\0b",
    "lone \ud800 and \udfff, pair \ud83d\ude00",
    "👨‍👩‍👧‍👦 é é ﷽",
    "   \n\n\t  x  ",
    "I'LL don't 123456 ½ Ⅻ",
    "\u3000全角\u200b零宽\ufeff",
]

REFERENCE = """
import json, sys, tiktoken
for line in sys.stdin:
    name, texts = json.loads(line)
    encoding = tiktoken.get_encoding(name)
    print(json.dumps([len(encoding.encode_ordinary(text)) for text in texts]))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fill tiktoken's own cache from the shipped files, so that it needs no network either."""
    folder = tmp_path_factory.mktemp("tiktoken")
    for name in NAMES:
        url = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
        raw = gzip.decompress((VOCABULARIES_AT / f"{name}.tiktoken.gz").read_bytes())
        (folder / hashlib.sha1(url.encode()).hexdigest()).write_bytes(raw)
    return folder


def tiktoken_counts(cache: Path, name: str, texts: list[str]) -> list[int]:
    ran = subprocess.run(
        [sys.executable, "-c", REFERENCE],
        input=json.dumps([name, texts]) + "\n",
        env={"TIKTOKEN_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return cast("list[int]", json.loads(ran.stdout))


def random_texts(amount: int) -> list[str]:
    dice = random.Random(7)
    ranges = [
        (32, 127),
        (0x4E00, 0x9FFF),
        (0x1F300, 0x1FAFF),
        (0x300, 0x36F),
        (9, 13),
        (0x400, 0x4FF),
        (32, 33),
    ]

    def text() -> str:
        parts = (dice.choice(ranges) for _ in range(dice.randint(1, 12)))
        return "".join(chr(dice.randint(*part)) for part in parts for _ in range(dice.randint(1, 6)))

    return [text() for _ in range(amount)]


@pytest.mark.parametrize("name", NAMES)
def test_the_counts_are_tiktokens(cache: Path, name: str) -> None:
    texts = [*SAMPLES, *random_texts(3000)]
    counter = OfflineCounter(name)
    assert [counter.count(text) for text in texts] == tiktoken_counts(cache, name, texts)


@pytest.mark.parametrize("name", NAMES)
def test_the_pattern_and_special_tokens_are_tiktokens(
    name: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
    from tiktoken_ext import openai_public

    theirs = cast("dict[str, Any]", getattr(openai_public, name)())
    ours = VOCABULARIES[name]
    assert ours.pattern == theirs["pat_str"]
    assert ours.special_tokens == theirs["special_tokens"]
    assert read_ranks(VOCABULARIES_AT / f"{name}.tiktoken.gz", ours.sha256) == theirs["mergeable_ranks"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_can_be_counted(text: str) -> None:
    for name in NAMES:
        count = OfflineCounter(name).count(text)
        assert (count == 0) == (text == "")
        assert count <= 3 * len(text) + len(text.encode("utf-8", "surrogatepass"))


_ANY_SIGN = st.one_of(
    st.sampled_from("aZé9 \n\r\t.,!?;:'’/，。！？；：、的あアン가٣²\u0301\u3099😀_-"),
    st.characters(exclude_categories=()),
)


@settings(max_examples=500, deadline=None)
@given(st.text(_ANY_SIGN, min_size=1, max_size=80), st.integers(1, 10))
def test_counts_of_pieces_add_up_to_the_whole(text: str, length: int) -> None:
    places = list(pieces_of(text, length))
    assert "".join(text[start:end] for start, end in places) == text
    for name in NAMES:
        encode = load_encoding(name).encode_ordinary
        assert sum(len(encode(text[start:end])) for start, end in places) == len(encode(text))


@pytest.mark.parametrize("name", NAMES)
def test_long_texts_are_counted_exactly_in_short_pieces(name: str) -> None:
    counter, encoding = OfflineCounter(name), load_encoding(name)
    for text in (" ".join(random_texts(8_000)), "灯塔看守说，我们见过吗？" * 20_000):
        assert counter.count(text) == len(encoding.encode_ordinary(text))
        assert max(end - start for start, end in pieces_of(text)) < 60_000


@pytest.mark.parametrize("name", NAMES)
@given(most=st.integers(0, 60_000))
@settings(max_examples=20, deadline=None)
def test_counting_stops_above_a_limit(name: str, most: int) -> None:
    text = "the keeper said it. " * 10_000
    whole, counted = OfflineCounter(name).count(text), OfflineCounter(name).count(text, most)
    assert counted == whole if whole <= most else most < counted <= whole
    if most < 1_000:
        assert counted < 20_000


@pytest.mark.parametrize("name", NAMES)
def test_text_without_words_is_not_encoded_when_it_must_exceed_the_limit(name: str) -> None:
    assert 1_000 < OfflineCounter(name).count("!" * 50_000_000, 1_000) <= 50_000_000 // 128


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["a", " ", "\n", "的", "😀", "cjk", "!", "\u0301", "Aa", "\0"])
def test_long_monotonous_texts_are_counted(name: str, kind: str) -> None:
    dice = random.Random(1)
    cjk = "".join(chr(dice.randint(0x4E00, 0x9FFF)) for _ in range(1000))
    text = cjk * 200 if kind == "cjk" else kind * 200_000
    counter = OfflineCounter(name)
    counter.count("load it")
    assert counter.count(text) > 1000


@pytest.mark.parametrize("name", NAMES)
def test_more_blanks_than_tiktoken_can_take_are_counted_all_the_same(name: str) -> None:
    counter, encoding = OfflineCounter(name), load_encoding(name)
    for after in ("", "\nx!"):
        # tiktoken gives up at about a million; below that both ways of counting must agree.
        within = "a!" + " " * 510_000 + after
        assert counter.count(within) == len(encoding.encode_ordinary(within))
    assert counter.count(" " * 1_100_000 + "x") > 1_000


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai:gpt-4o-mini", "o200k_base"),
        ("gpt-4.1", "o200k_base"),
        ("openai:gpt-5", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("openai:gpt-4", "cl100k_base"),
        ("gpt-4-turbo-2024-04-09", "cl100k_base"),
        ("openai:gpt-3.5-turbo", "cl100k_base"),
        ("openai:openai/gpt-4", "cl100k_base"),
        ("local:/models/qwen.gguf", "o200k_base"),
        ("rehearsal", "o200k_base"),
    ],
)
def test_each_model_has_its_vocabulary(model: str, encoding: str) -> None:
    assert encoding_for(model) == encoding


def test_an_unknown_vocabulary_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="o200k_base"):
        OfflineCounter("p50k_base")


@pytest.mark.parametrize("content", [None, b"", b"no gzip", gzip.compress(b"aGk= 0\n", mtime=0)])
def test_a_broken_vocabulary_is_a_storage_error_that_names_it(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "o200k_base.tiktoken.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StorageError, match="o200k_base") as caught:
        read_ranks(path, VOCABULARIES["o200k_base"].sha256)
    assert caught.value.code == "file_broken"


def test_counting_opens_no_socket_and_writes_no_file(tmp_path: Path) -> None:
    program = """
import sys
seen = []
def watch(event, args):
    writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
    if writes or event.startswith("socket."):
        seen.append((event, str(args)))
sys.addaudithook(watch)
sys.dont_write_bytecode = True
from personalab.providers.tokens import OfflineCounter
print(OfflineCounter("o200k_base").count("Hello, 世界"), OfflineCounter("cl100k_base").count("Hello, 世界"))
print(seen)
"""
    root = Path(__file__).resolve().parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "HOME": str(tmp_path), "TMPDIR": "/nowhere"},
    )
    assert ran.stdout.splitlines()[1] == "[]"
    assert list(tmp_path.iterdir()) == []


def test_many_threads_load_a_vocabulary_once() -> None:
    program = """
import sys, threading
from personalab.providers.tokens import OfflineCounter
reads = []
sys.addaudithook(lambda event, args: reads.append(1) if event == "open" and "vocab" in str(args[0]) else None)
counter = OfflineCounter("cl100k_base")
threads = [threading.Thread(target=counter.count, args=("Hello",)) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(reads))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"
