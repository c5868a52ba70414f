"""Whatever is written, compacted, folded, reopened and broken, in any order: an archive holds what lists would."""

from __future__ import annotations

import json
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from personalab.archive.veloca import check_archive
from personalab.errors import UserError
from personalab.storage.veloca import VelocaStore
from personalab.storage.veloca_backups import restore_archive, verify_archive

TIME = "2024-01-01T00:00:00.000Z"
NUMBERS = st.integers(0, 10**6)


class Writing(RuleBasedStateMachine):
    """Follows what the archive should hold, as the source describes it: arrays of plain objects."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "v.json"
        self.stores = [self._open(0), self._open(1)]
        self.doc: dict[str, list[dict[str, Any]]] = {
            "sessions": [],
            "entries": [],
            "compacted_dialogues": [],
        }
        self.taken: dict[str, set[str]] = {}
        """The entries that each dialogue of the model tells."""
        self.numbers = count()

    def _open(self, at: int) -> VelocaStore:
        """Open it; one store makes a backup at each fold, the other joins what is of the same hour."""
        wishes: dict[str, Any] = {"keep_backups": 2, "fold_bytes": 3_000}
        return VelocaStore(self.path, now=lambda: TIME, backup_seconds=3_600 * (at % 2), **wishes)

    def _id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self.numbers):012}"

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.cleanup()

    # --- records

    @rule(at=NUMBERS, name=st.text(max_size=5))
    def begin(self, at: int, name: str) -> None:
        session_id = self._id()
        made = self.stores[at % 2].create_session(name, session_id=session_id).fields()
        assert made == {"session_id": session_id, "name": name, "status": 0, "create_at": TIME}
        self.doc["sessions"].append(made)

    @precondition(lambda self: self.doc["sessions"])
    @rule(at=NUMBERS, message=st.text(max_size=8), extra=st.dictionaries(st.sampled_from("xyz"), NUMBERS))
    def say(self, at: int, message: str, extra: dict[str, int]) -> None:
        session = self.doc["sessions"][at % len(self.doc["sessions"])]
        entry_id = self._id()
        entry: dict[str, Any] = {
            "entry_id": entry_id,
            "session_id": session["session_id"],
            "message": message,
            "role": "user" if at % 3 else "assistant",
            "token_consumption": at % 100,
            "status": 0,
            "tools": None,
            "create_at": TIME,
            "is_compaction": 1,
            **extra,
        }
        try:
            made = self.stores[at % 2].create_entry(
                entry["session_id"],
                entry["role"],
                message,
                token_consumption=at % 100,
                entry_id=entry_id,
                extra=extra,
            )
        except UserError:
            assert session["status"] == 1
            return
        assert made.fields() == entry
        self.doc["entries"].append(entry)

    @precondition(lambda self: self.doc["entries"])
    @rule(at=NUMBERS, message=st.text(max_size=8), status=st.sampled_from([0, 0, 1]))
    def change(self, at: int, message: str, status: int) -> None:
        entry = self.doc["entries"][at % len(self.doc["entries"])]
        entry |= {"message": message, "status": status}
        made = self.stores[at % 2].update_entry(entry["entry_id"], message=message, status=status)
        assert made.fields() == entry

    @precondition(lambda self: self.doc["sessions"])
    @rule(at=NUMBERS, status=st.sampled_from([0, 0, 1]))
    def end(self, at: int, status: int) -> None:
        session = self.doc["sessions"][at % len(self.doc["sessions"])]
        session["status"] = status
        assert self.stores[at % 2].update_session(session["session_id"], status=status).fields() == session

    # --- compaction

    def _of(self, session_id: str) -> list[dict[str, Any]]:
        return [entry for entry in self.doc["entries"] if entry["session_id"] == session_id]

    def _live(self, session_id: str, but: str = "") -> list[tuple[int, dict[str, Any]]]:
        """Find the dialogues of a session that are in use, each with the place of its trigger."""
        places = {entry["entry_id"]: place for place, entry in enumerate(self._of(session_id))}
        return [
            (places[found["trigger_entry_id"]], found)
            for found in self.doc["compacted_dialogues"]
            if found["status"] == 0 and found["trigger_entry_id"] in places and found["entry_id"] != but
        ]

    @precondition(lambda self: self.doc["entries"])
    @rule(at=NUMBERS)
    def compact(self, at: int) -> None:
        trigger = self.doc["entries"][at % len(self.doc["entries"])]
        session_id = trigger["session_id"]
        entries = self._of(session_id)
        place = entries.index(trigger)
        found = [entry for entry in entries[:place] if entry["status"] == 0 and entry["is_compaction"] == 1]
        session = next(found for found in self.doc["sessions"] if found["session_id"] == session_id)
        possible = (
            found
            and trigger["status"] == 0
            and session["status"] == 0
            and place >= max((start for start, _ in self._live(session_id)), default=0)
        )
        try:
            made = self.stores[at % 2].compact(session_id, f"摘要{at}", trigger["entry_id"])
        except UserError:
            assert not possible
            return
        assert possible
        live = self._live(session_id)
        latest = max((start for start, _ in live), default=0)
        superseded = [other["entry_id"] for start, other in live if start == latest < place]
        self.doc["compacted_dialogues"].append(made.fields())
        self.taken[made.entry_id] = {entry["entry_id"] for entry in found}
        for other in superseded:
            self.taken[made.entry_id] |= self.taken[other]
        for entry in found:
            entry["is_compaction"] = 0

    @precondition(lambda self: self.doc["compacted_dialogues"])
    @rule(at=NUMBERS)
    def undo(self, at: int) -> None:
        dialogue = self.doc["compacted_dialogues"][at % len(self.doc["compacted_dialogues"])]
        try:
            self.stores[at % 2].undo_compaction(dialogue["entry_id"])
        except UserError:
            assert dialogue["status"] == 1
            return
        dialogue["status"] = 1
        trigger = next(
            found for found in self.doc["entries"] if found["entry_id"] == dialogue["trigger_entry_id"]
        )
        live = [found["entry_id"] for _, found in self._live(trigger["session_id"])]
        kept = {entry_id for other in live for entry_id in self.taken[other]}
        for entry in self._of(trigger["session_id"]):
            if entry["entry_id"] in self.taken[dialogue["entry_id"]] - kept:
                entry["is_compaction"] = 1

    # --- what happens to the files

    @rule(at=NUMBERS)
    def fold(self, at: int) -> None:
        self.stores[at % 2].fold()

    @rule(at=NUMBERS, folding=st.booleans())
    def reopen(self, at: int, folding: bool) -> None:
        if folding:
            self.stores[at % 2].close()
        self.stores[at % 2] = self._open(at)

    @precondition(lambda self: self.path.exists())
    @rule(rest=st.binary(max_size=20))
    def wreck(self, rest: bytes) -> None:
        self.path.write_bytes(b"\0" + rest)
        assert not verify_archive(self.path).healthy
        assert restore_archive(self.path).lost_lines == 0

    @rule(rest=st.binary(max_size=20).filter(lambda rest: b"\n" not in rest))
    def tear(self, rest: bytes) -> None:
        journal = self.path.with_name("v.json.journal")
        if journal.exists():
            with journal.open("ab") as file:
                file.write(rest)

    @precondition(lambda self: self.path.exists())
    @rule(value=NUMBERS)
    def rewrite(self, value: int) -> None:
        """Let another program write the file in its own way."""
        doc = json.loads(self.path.read_bytes())
        self.path.write_text(json.dumps({"theirs": value, **doc}, indent=1), "utf-8")

    # --- what must hold

    @invariant()
    def both_stores_hold_what_was_written(self) -> None:
        for store in self.stores:
            found = store.document()
            found.pop("theirs", None)
            assert found == self.doc

    @invariant()
    def the_archive_is_well(self) -> None:
        report = verify_archive(self.path)
        assert report.healthy, report.problems
        assert all(backup.problem is None for backup in report.backups)
        assert len(report.backups) <= 2
        if self.path.exists():
            assert check_archive(json.loads(self.path.read_bytes())) == []

    @invariant()
    def a_model_sees_the_summaries_in_force_and_what_follows(self) -> None:
        for session in self.doc["sessions"]:
            if session["status"]:
                continue
            live = self._live(session["session_id"])
            start = max((place for place, _ in live), default=0)
            told = [found["summary"] for place, found in live if place == start]
            said = [
                entry["message"]
                for entry in self._of(session["session_id"])[start:]
                if entry["status"] == 0 and entry["is_compaction"] == 1
            ]
            seen = self.stores[0].context(session["session_id"]).messages()
            assert [message["content"] for message in seen] == [*told, *said]


TestWriting = Writing.TestCase
TestWriting.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
