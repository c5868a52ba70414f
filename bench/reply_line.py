"""The time to stream a token into its file, compared with a bare write of the same bytes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from bench.table import Figure, best_of
from personalab.storage.reply_line import ReplyLine

TOKENS = ["我", "当然", "记得", "。", " the", " tide", "\n", '"', " light", "，"]


def _stream(count: int) -> list[str]:
    return [TOKENS[n % len(TOKENS)] for n in range(count)]


def _with(path: Path, work: str, tokens: list[str]) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if work == "line":
            line = ReplyLine(fd, 0, 42, "2025-10-16T10:30:15Z")
            for token in tokens:
                line.write(token)
        elif work == "bare":
            for token in tokens:
                os.write(fd, token.encode("utf-8"))
        else:
            said = ""
            for token in tokens:
                said += token
                blob = json.dumps({"role": "assistant", "content": said, "turn": 42}, ensure_ascii=False)
                os.pwrite(fd, blob.encode("utf-8"), 0)
    finally:
        os.close(fd)


def figures() -> list[Figure]:
    """Measure the reply's line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "line"

        def per_token(work: str, count: int, repeat: int) -> float:
            tokens = _stream(count)

            def run() -> None:
                for _ in range(repeat):
                    _with(path, work, tokens)

            return best_of(run) / (count * repeat)

        bare = per_token("bare", 4_000, 2)
        line = per_token("line", 4_000, 2)
        short, long = per_token("line", 100, 80), per_token("line", 16_000, 1)
        rewrite = per_token("rewrite", 4_000, 1)
    return [
        Figure(
            "reply line: a token / a bare os.write",
            line / bare,
            at_most=2,
            note=f"{line * 1e6:.2f} µs a token",
        ),
        Figure("reply line: a token of 16,000 / of 100", long / short, at_most=1.3),
        Figure(
            "rewriting the line (the source's way) / a bare os.write",
            rewrite / bare,
            note="4,000 tokens, for scale",
        ),
    ]
