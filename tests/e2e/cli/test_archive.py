"""A Veloca archive from the terminal: written, looked at, compacted, taken back, checked, brought back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.e2e.cli.conftest import Run

TOOLS = {
    "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    ]
}


def _json(run: Run, *words: str, typed: str | None = None) -> Any:
    done = run("archive", *words, "--json", typed=typed)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _laid_out(root: Path, count: int = 6) -> str:
    """Write an archive as any program might; give its session's id."""
    session = "550e8400-e29b-41d4-a716-446655440000"
    entries = [
        {
            "entry_id": f"{number:08d}-e29b-41d4-a716-446655440001",
            "session_id": session,
            "message": f"消息 {number}：我们往北走。",
            "role": "user" if number % 2 else "assistant",
            "token_consumption": number,
            "status": 0,
            "tools": None,
            "create_at": f"2024-01-01T00:00:{number:02d}.000Z",
            "is_compaction": 1,
        }
        for number in range(1, count + 1)
    ]
    begun = {"session_id": session, "name": "北行", "status": 0, "create_at": "2024-01-01T00:00:00.000Z"}
    document = {"sessions": [begun], "entries": entries, "compacted_dialogues": [], "owner": "someone"}
    path = root / "archive" / "veloca-storage.json"
    path.parent.mkdir(parents=True)
    (root / "config.json").write_text("{}", encoding="utf-8")
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    return session


def _document(root: Path) -> dict[str, Any]:
    return json.loads((root / "archive" / "veloca-storage.json").read_text(encoding="utf-8"))


def test_a_session_is_begun_written_and_read_and_any_program_reads_the_file(
    personalab: Run, root: Path, tmp_path: Path
) -> None:
    assert _json(personalab, "sessions") == []
    made = _json(personalab, "new", "My trip")
    session = made["session_id"]
    assert (len(session), made["status"]) == (36, 0)
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS), encoding="utf-8")
    said = _json(personalab, "append", session[:8], "user", "-", "--tokens", "12", typed="two\nlines\n")
    called = _json(personalab, "append", session, "assistant", "Looking.", "--tools", str(tools))
    assert (said["message"], said["token_consumption"], called["tools"]) == ("two\nlines", 12, TOOLS)
    document = _document(root)
    assert document["sessions"] == [made]
    assert document["entries"] == [said, called]
    assert _json(personalab, "sessions") == [{**made, "entries": 2, "tokens": 12}]
    assert _json(personalab, "entries", session) == [said, called]
    shown = personalab("archive", "entries", session)
    assert 'weather({"city": "Oslo"})' in shown.stdout
    assert _json(personalab, "context", session)[1]["tools"] == TOOLS
    assert _json(personalab, "tokens")["total"] == 12


def test_entries_are_reworded_and_records_deleted_and_brought_back(personalab: Run, root: Path) -> None:
    session = _laid_out(root, 2)
    changed = _json(personalab, "edit", "00000001", "另一句话")
    assert changed["message"] == "另一句话"
    assert _json(personalab, "delete", changed["entry_id"])["status"] == 1
    assert [entry["message"] for entry in _json(personalab, "entries", session)] == ["消息 2：我们往北走。"]
    assert len(_json(personalab, "entries", session, "--all")) == 2
    assert _json(personalab, "tokens", session)["total"] == 2
    assert _json(personalab, "undelete", "00000001")["status"] == 0
    assert _json(personalab, "delete", session)["status"] == 1
    assert _json(personalab, "sessions") == []
    assert [row["status"] for row in _json(personalab, "sessions", "--all")] == [1]
    refused = personalab("archive", "context", session)
    assert (refused.returncode, len(refused.stderr.strip().splitlines())) == (2, 1)
    document = _document(root)
    assert (len(document["entries"]), document["owner"]) == (2, "someone")


def test_a_conversation_is_compacted_with_no_key_and_taken_back(personalab: Run, root: Path) -> None:
    session = _laid_out(root)
    before = _document(root)
    shown = personalab("archive", "compact", session[:8], "--dry-run")
    assert (shown.returncode, "消息 1" in shown.stdout) == (0, True)
    assert _document(root) == before
    done = personalab("archive", "compact", session[:8])
    assert done.returncode == 0, done.stderr
    assert f"personalab archive undo {session[:8]}" in done.stderr
    seen = _json(personalab, "context", session)
    assert [message["role"] for message in seen] == ["system", "user", "assistant", "user", "assistant"]
    assert "消息 1" in seen[0]["content"]
    assert [entry["is_compaction"] for entry in _document(root)["entries"]] == [0, 0, 1, 1, 1, 1]
    assert "已压缩" in personalab("archive", "entries", session).stdout
    undone = _json(personalab, "undo", session)
    assert (undone["entries"], undone["dialogue"]["status"]) == (2, 1)
    assert _document(root)["entries"] == before["entries"]
    again = personalab("archive", "undo", session)
    assert (again.returncode, len(again.stderr.strip().splitlines())) == (2, 1)
    assert personalab("archive", "undelete", undone["dialogue"]["entry_id"]).returncode == 2


def test_ones_own_summary_and_trigger_are_taken_and_an_undo_names_the_summary(
    personalab: Run, root: Path
) -> None:
    session = _laid_out(root)
    own = ("compact", session, "--summary", "-", "--trigger", "00000006")
    result = _json(personalab, *own, typed="他们往北走。\n")
    assert (result["status"], result["entries"]) == ("done", 5)
    assert result["dialogue"]["summary"] == "他们往北走。"
    assert [message["content"] for message in _json(personalab, "context", session)] == [
        "他们往北走。",
        "消息 6：我们往北走。",
    ]
    assert _json(personalab, "undo", result["dialogue"]["entry_id"][:8])["entries"] == 5


def test_a_model_that_gives_no_summary_leaves_the_archive_as_it_was(
    personalab: Run, root: Path, script: Callable[..., str]
) -> None:
    session = _laid_out(root)
    before = _document(root)
    done = personalab("archive", "compact", session, "--model", script("no", "no"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "JSON" in done.stderr
    assert _document(root) == before


def test_another_file_is_worked_with_and_the_roots_own_is_not_touched(
    personalab: Run, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    place = ("--file", str(file))
    session = _json(personalab, "new", "Elsewhere", *place)["session_id"]
    for number in range(6):
        _json(personalab, "append", session, "user", f"Message {number} of this talk", *place)
    done = personalab("archive", "compact", session, *place)
    assert done.returncode == 0, done.stderr
    assert f"--file {file}" in done.stderr
    assert len(json.loads(file.read_text(encoding="utf-8"))["compacted_dialogues"]) == 1
    assert not (root / "archive").exists()


def test_a_broken_file_is_told_left_alone_and_brought_back(personalab: Run, root: Path) -> None:
    session = _laid_out(root, 2)
    path = root / "archive" / "veloca-storage.json"
    added = _json(personalab, "append", session, "user", "还有一句")
    assert _json(personalab, "verify")["healthy"] is True
    path.write_bytes(path.read_bytes()[:100])
    told = personalab("archive", "entries", session)
    assert (told.returncode, "archive restore" in told.stderr) == (1, True)
    assert len(told.stderr.strip().splitlines()) == 1
    checked = personalab("archive", "verify")
    assert (checked.returncode, "问题" in checked.stdout) == (1, True)
    assert _json(personalab, "backups")[0]["problem"] is None
    refused = personalab("archive", "restore")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    restored = _json(personalab, "restore", "--yes")
    assert restored["changed"] is True
    assert Path(restored["set_aside"][0]).stat().st_size == 100
    assert _json(personalab, "entries", session)[-1] == added
    assert personalab("archive", "verify").returncode == 0
    whole = personalab("archive", "restore", "--yes")
    assert (whole.returncode, "--backup" in whole.stdout) == (0, True)


def test_a_person_is_asked_before_a_backup_is_gone_back_to(
    root: Path, personalab: Run, terminal: Callable[..., pexpect.spawn[str]]
) -> None:
    session = _laid_out(root, 2)
    added = _json(personalab, "append", session, "user", "还有一句")
    asked = terminal("archive", "restore", "--backup", "1")
    asked.expect("y/N")
    asked.sendline("n")
    asked.expect(pexpect.EOF)
    asked.close()
    assert asked.exitstatus == 1
    assert _json(personalab, "entries", session)[-1] == added


def test_who_names_a_backup_goes_back_and_who_does_not_gets_everything(root: Path, personalab: Run) -> None:
    session = _laid_out(root, 3)
    _json(personalab, "append", session, "user", "还有一句")
    _json(personalab, "delete", "00000001")
    went = personalab("archive", "restore", "--backup", "1", "--yes")
    assert (went.returncode, "bak1" in went.stdout, "before1" in went.stderr) == (0, True, True)
    assert [entry["status"] for entry in _json(personalab, "entries", session, "--all")] == [0, 0, 0]
    kept = root / "archive" / "veloca-storage.json.before1"
    assert len(_json(personalab, "entries", session, "--all", "--file", str(kept))) == 4
    assert len(_json(personalab, "backups")) == 2, (
        "both commands of the hour share one, and the state is another"
    )


def test_records_that_cannot_be_read_are_counted_on_stderr(root: Path, personalab: Run) -> None:
    session = _laid_out(root, 2)
    assert personalab("archive", "entries", session).stderr == ""
    document = _document(root)
    document["entries"] += [{**document["entries"][0], "entry_id": "x", "role": "tool"}] * 2
    path = root / "archive" / "veloca-storage.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    for command in ("entries", "context"):
        told = personalab("archive", command, session, "--json")
        assert len(json.loads(told.stdout)) == 2
        assert "2 条" in told.stderr
        assert "archive verify" in told.stderr
    assert not (path.parent / f"{path.name}.lock").exists()


def test_a_deleted_session_is_brought_back_by_the_command_that_is_named(root: Path, personalab: Run) -> None:
    session = _laid_out(root, 2)
    _json(personalab, "delete", session)
    told = personalab("archive", "append", session, "user", "还在吗")
    assert f"personalab archive undelete {session}" in told.stderr
    _json(personalab, "undelete", session)
    assert personalab("archive", "append", session, "user", "还在").returncode == 0


def test_a_message_cannot_steer_the_terminal(
    root: Path, personalab: Run, terminal: Callable[..., pexpect.spawn[str]]
) -> None:
    session = _laid_out(root, 1)
    _json(personalab, "append", session, "user", "x \x1b[31mred \x1b]0;title\x07")
    shown = terminal("archive", "entries", session)
    shown.expect(pexpect.EOF)
    assert "red" in str(shown.before)
    assert "\x1b[31m" not in str(shown.before)
    assert "\x1b]0" not in str(shown.before)


@pytest.mark.parametrize(
    "words",
    [
        ("entries", "550e"),
        ("entries", "99999999-e29b"),
        ("append", "550e8400", "king", "x"),
        ("append", "550e8400", "user", " "),
        ("append", "550e8400", "user", "x", "--tokens", "-1"),
        ("append", "550e8400", "user", "x", "--tools", "no/such/file.json"),
        ("append", "550e8400", "assistant", "x", "--tools", "-"),
        ("append", "550e8400", "user", "-", "--tools", "-"),
        ("new", "  "),
        ("edit", "00000009", "x"),
        ("edit", "0000000", "x"),
        ("delete", "nobody-there"),
        ("compact", "550e8400", "--trigger", "00000001"),
        ("compact", "550e8400", "--summary", " "),
        ("undo", "550e8400"),
        ("sessions", "--file", "no-such-file.json"),
        ("verify", "--file", "no/such/file.json"),
        ("restore", "--backup", "0"),
    ],
)
def test_what_is_not_there_or_not_right_is_bad_input_in_a_sentence(
    personalab: Run, root: Path, words: tuple[str, ...]
) -> None:
    _laid_out(root)
    before = _document(root)
    done = personalab("archive", *words, typed='{"tool_calls": [{}]}')
    assert (done.returncode, done.stdout.strip()) == (2, ""), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert _document(root) == before


def test_ids_that_begin_alike_are_told_apart_by_more_of_them(personalab: Run, root: Path) -> None:
    session = _laid_out(root, 2)
    path = root / "archive" / "veloca-storage.json"
    document = _document(root)
    document["entries"][1]["entry_id"] = "00000001-ffff-41d4-a716-446655440001"
    path.write_text(json.dumps(document), encoding="utf-8")
    refused = personalab("archive", "edit", "00000001", "x")
    assert (refused.returncode, "2" in refused.stderr) == (2, True)
    assert _json(personalab, "edit", "00000001-f", "x")["entry_id"].startswith("00000001-ffff")
    assert [entry["message"] for entry in _json(personalab, "entries", session)][1] == "x"


def test_the_words_are_in_the_readers_language(personalab: Run, root: Path) -> None:
    session = _laid_out(root)
    (root / "config.json").write_text('{"preferences": {"language": "en"}}', encoding="utf-8")
    done = personalab("archive", "compact", session)
    assert "older entries were replaced by this summary" in done.stderr
    assert "intact" in personalab("archive", "verify").stdout
    refused = personalab("archive", "entries", "00000000")
    assert "has no session" in refused.stderr
    assert session in refused.stderr
