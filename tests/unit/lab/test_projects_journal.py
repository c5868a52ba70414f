"""A call is accounted for once, whatever a crash left of the account."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from personalab.storage.lab.project_journal import Account, CallJournal, read_journal

ROWS = [
    {
        "call_id": f"x-{n}-a1",
        "role": "execute",
        "cost_usd": 0.5,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    for n in range(4)
]


def _written(path: Path, rows: list[dict[str, Any]]) -> CallJournal:
    journal = CallJournal(path, "calls.jsonl")
    journal.open()
    for row in rows:
        journal.append(row)
    journal.close()
    return journal


def test_a_call_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    account = _written(path, [*ROWS, ROWS[0]]).account
    assert (account.calls, account.spent, account.unpriced) == (4, 2.0, False)
    path.write_bytes(path.read_bytes() * 2)
    account = Account(read_journal(path, "calls.jsonl"))
    assert (account.calls, account.spent, account.input_tokens, account.output_tokens) == (4, 2.0, 12, 16)


@given(st.integers(0, 500))
def test_an_account_cut_off_anywhere_is_whole_again_after_the_calls_are_told_once_more(cut: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "calls.jsonl"
        _written(path, ROWS)
        whole = path.read_bytes()
        path.write_bytes(whole[: min(cut, len(whole))])
        assert [row for row in read_journal(path, "calls.jsonl") if row not in ROWS] == []
        _written(path, ROWS)
        assert path.read_bytes() == whole


@given(st.binary(max_size=200))
def test_an_account_that_others_spoiled_is_read_as_far_as_it_goes(noise: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "calls.jsonl"
        line = json.dumps(ROWS[0]).encode("ascii")
        path.write_bytes(line + b"\n" + noise + b"\n" + line.replace(b"x-0", b"x-9") + b"\n")
        found = {row["call_id"] for row in read_journal(path, "calls.jsonl")}
        assert {"x-0-a1", "x-9-a1"} <= found


def test_what_was_not_priced_is_not_free(tmp_path: Path) -> None:
    account = _written(
        tmp_path / "calls.jsonl", [{"call_id": "a", "role": "execute", "cost_usd": None}]
    ).account
    assert (account.calls, account.spent, account.dearest("execute")) == (1, None, None)
    assert account.unpriced
    account.add({"call_id": "b", "role": "judge", "cost_usd": 0.5, "status": "ok"})
    account.add({"call_id": "c", "role": "judge", "cost_usd": 0.2, "status": "ok"})
    assert (account.dearest("judge"), account.dearest("execute"), account.dearest_of_all) == (0.5, None, 0.5)


def test_a_failure_without_a_price_says_nothing_of_prices() -> None:
    account = Account([{"call_id": "a", "role": "execute", "cost_usd": None, "status": "failed"}])
    assert not account.unpriced


def test_byte_order_mark_loses_no_call(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    _written(path, ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    account = Account(read_journal(path, "calls.jsonl"))
    assert (account.calls, account.spent) == (4, 2.0)


def test_opening_keeps_a_single_line_with_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    _written(path, ROWS[:1])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().rstrip(b"\n"))
    _written(path, ROWS[1:2])
    assert Account(read_journal(path, "calls.jsonl")).calls == 2
