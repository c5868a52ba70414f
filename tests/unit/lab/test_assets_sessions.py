"""Sessions of the command line have an end, and its settings a beginning."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from personalab.errors import BadRecord, NotFound, StorageError, UserError
from personalab.storage.lab.sessions import SessionFiles

NOW, WEEK_LATER = "2024-01-01T12:10:00Z", "2024-01-08T12:10:00Z"
ID = "00000001-0000-4000-8000-000000000000"


@pytest.fixture
def files(tmp_path: Path) -> SessionFiles:
    return SessionFiles(tmp_path / "workspace")


def test_settings_begin_with_the_defaults_of_the_source(files: SessionFiles, tmp_path: Path) -> None:
    """Resolution 35: 60 seconds stay the default."""
    found = files.settings().fields()
    updated = found.pop("updated_at")
    assert found == {
        "cli_path": "claude",
        "default_model": "claude-opus-4-6",
        "default_timeout_seconds": 60.0,
        "default_retry_count": 2,
        "temp_session_ttl_days": 7,
        "context": {"token_threshold": 80_000, "auto_compress": True, "auto_export": True},
    }
    path = tmp_path / "workspace/cli/config.json"
    assert json.loads(path.read_bytes())["updated_at"] == updated
    files.save_settings(files.settings().changed(default_timeout_seconds=120))
    assert SessionFiles(tmp_path / "workspace").settings().default_timeout_seconds == 120


def test_broken_settings_are_told_and_never_replaced(files: SessionFiles, tmp_path: Path) -> None:
    files.settings()
    path = tmp_path / "workspace/cli/config.json"
    for content, error in ((b"{", StorageError), (b'{"cli_path": ""}', BadRecord)):
        path.write_bytes(content)
        with pytest.raises(error, match=r"workspace/cli/config\.json"):
            files.settings()
        assert path.read_bytes() == content


def test_a_session_is_opened_closed_and_found(files: SessionFiles, tmp_path: Path) -> None:
    first = files.open("auto_tag", "skill", ID, NOW)
    second = files.open("baseline_gen", "baseline", ID, NOW)
    assert [first.session_id, second.session_id] == ["tmp_sess_20240101121000", "tmp_sess_20240101121000_2"]
    assert first.expires_at == WEEK_LATER
    files.close(first.session_id)
    assert [session.status for session in files.sessions()] == ["closed", "active"]
    path = tmp_path / "workspace/cli/temp_session/tmp_sess_20240101121000.json"
    assert json.loads(path.read_bytes())["status"] == "closed"


def test_active_and_closed_sessions_expire_and_lose_their_exports(
    files: SessionFiles, tmp_path: Path
) -> None:
    closed = files.open("auto_tag", "skill", ID, NOW)
    left = files.open("auto_tag", "skill", ID, NOW)
    young = files.open("auto_tag", "skill", ID, "2024-01-05T00:00:00Z")
    exported = [tmp_path / "workspace" / files.export(one.session_id, "文") for one in (closed, left, young)]
    files.close(closed.session_id)
    assert files.expire("2024-01-08T12:09:59Z") == []
    assert files.expire(WEEK_LATER) == [closed.session_id, left.session_id]
    assert files.expire(WEEK_LATER) == []
    kept = [files.session(one.session_id) for one in (closed, left, young)]
    assert [one.status for one in kept] == ["expired", "expired", "active"]
    assert [path.exists() for path in exported] == [False, False, True]
    for one in kept:
        assert all((tmp_path / "workspace" / name).is_file() for name in one.context_exports)
    assert [len(one.context_exports) for one in kept] == [0, 0, 1]
    files.close(left.session_id)
    assert files.session(left.session_id).status == "expired"


def test_expired_session_that_names_missing_exports_is_corrected(files: SessionFiles, tmp_path: Path) -> None:
    """An older version marked a session as expired and left the names of the exports it deleted."""
    session = files.open("auto_tag", "skill", ID, NOW)
    files.export(session.session_id, "文")
    path = tmp_path / f"workspace/cli/temp_session/{session.session_id}.json"
    path.write_text(path.read_text("utf-8").replace('"active"', '"expired"'), "utf-8")
    assert files.expire(WEEK_LATER) == []
    assert files.session(session.session_id).context_exports == ()


def test_dropped_session_leaves_no_export(files: SessionFiles, tmp_path: Path) -> None:
    session = files.open("auto_tag", "skill", ID, NOW).session_id
    exported = tmp_path / "workspace" / files.export(session, "文")
    files.drop(session)
    assert (exported.exists(), files.exists(session)) == (False, False)


def test_exports_of_another_session_of_the_same_second_stay(files: SessionFiles, tmp_path: Path) -> None:
    settings = files.settings()
    files.save_settings(settings.changed(temp_session_ttl_days=0))
    over = files.open("auto_tag", "skill", ID, NOW).session_id
    files.save_settings(settings)
    young = files.open("auto_tag", "skill", ID, NOW).session_id
    exported = [tmp_path / "workspace" / files.export(one, "文") for one in (over, young)]
    assert files.expire(NOW) == [over]
    assert [path.exists() for path in exported] == [False, True]


def test_exports_are_numbered_and_named_by_their_session(files: SessionFiles, tmp_path: Path) -> None:
    """Resolution 33."""
    session = files.open("auto_tag", "skill", ID, NOW).session_id
    files.export(session, "一")
    files.export(session, "二")
    names = files.session(session).context_exports
    assert names == tuple(f"cli/temp_session/exports/{session}_{n}.md" for n in (1, 2))
    assert [(tmp_path / "workspace" / name).read_text("utf-8") for name in names] == ["一", "二"]


def test_answers_that_nobody_came_back_for_are_removed_in_time(files: SessionFiles) -> None:
    for name, time in (("old", 1_704_000_000 - 8 * 86_400), ("new", 1_704_000_000)):
        (files.spool / name).mkdir(parents=True)
        (files.spool / name / "ask.done").write_bytes(b"{}")
        os.utime(files.spool / name, (time, time))
    files.expire("2023-12-31T05:20:00Z")
    assert [path.name for path in files.spool.iterdir()] == ["new"]


@pytest.mark.parametrize("name", ["../config", "a/b", "", "x" * 100])
def test_a_session_id_that_is_no_name_reaches_no_file(files: SessionFiles, name: str) -> None:
    files.settings()
    for work in (files.close, files.session, files.drop, files.exists):
        with pytest.raises(UserError):
            work(name)
    with pytest.raises(UserError):
        files.export(name, "x")


def test_sessions_that_others_wrote_badly_are_left_out_of_the_list(
    files: SessionFiles, tmp_path: Path
) -> None:
    kept = files.open("auto_tag", "skill", ID, NOW)
    folder = tmp_path / "workspace/cli/temp_session"
    (folder / "bad.json").write_bytes(b"[")
    (folder / "odd.json").write_text(json.dumps({**kept.fields(), "session_id": "../../config"}), "utf-8")
    assert len(files.sessions()) == 2
    before = (tmp_path / "workspace/cli/config.json").read_bytes()
    files.expire("2030-01-01T00:00:00Z")
    assert (tmp_path / "workspace/cli/config.json").read_bytes() == before
    with pytest.raises(NotFound):
        files.session("none")
