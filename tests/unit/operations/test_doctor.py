"""Tests of the doctor: findings, and repairs without loss."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from personalab.operations.doctor import examine_root
from personalab.operations.doctor_findings import DoctorReport, Finding
from personalab.operations.instances import read_session
from personalab.operations.reindex import reindex
from personalab.services import Services, open_services
from personalab.story.transcript import AssistantLine, UserLine, dump_line

pytestmark = pytest.mark.anyio


@pytest.fixture
def session(services: Services, instance: str, root: Path) -> Path:
    """A session with two whole turns."""
    path = root / "instances" / instance / "sessions" / "sess_001.jsonl"
    with path.open("ab") as file:
        for turn in (1, 2):
            file.write(dump_line(UserLine(f"问{turn}", turn, "2025-10-16T10:31:00Z")))
            file.write(dump_line(AssistantLine(f"答{turn}", turn, "2025-10-16T10:31:05Z")))
    return path


def codes(report: DoctorReport) -> list[str]:
    return [finding.code for finding in report.findings]


async def contents(services: Services, instance: str) -> list[str]:
    page = await read_session(open_services(services.settings), instance)
    return [entry["content"] for entry in page.entries]


async def fixed(services: Services) -> list[Finding]:
    """Repair, and make sure that a second look finds nothing."""
    report = await examine_root(services, fix=True)
    assert report.healthy, report.findings
    assert [
        finding for finding in (await examine_root(services)).findings if finding.level == "problem"
    ] == []
    return report.findings


async def test_a_fresh_root_is_healthy(services: Services, session: Path) -> None:
    report = await examine_root(services)
    assert (report.findings, report.healthy) == ([], True)
    assert report.files > 10


async def test_a_broken_line_is_named_and_set_aside(services: Services, session: Path, instance: str) -> None:
    lines = session.read_bytes().split(b"\n")
    lines.insert(3, b'{"role":"user", oh no')
    session.write_bytes(b"\n".join(lines))
    found = (await examine_root(services)).findings
    assert [(finding.code, finding.line, finding.fixable) for finding in found] == [("line_broken", 4, True)]
    assert found[0].file == f"instances/{instance}/sessions/sess_001.jsonl"
    assert [finding.fixed for finding in await fixed(services)] == [True]
    assert await contents(services, instance) == ["问1", "答1", "问2", "答2"]
    aside = session.with_suffix(".broken").read_bytes()
    assert aside.startswith(b"# line 4: ")
    assert b'{"role":"user", oh no\n' in aside


async def test_a_turn_that_nobody_played_is_named_and_set_aside(
    services: Services, session: Path, instance: str
) -> None:
    session.write_bytes(session.read_bytes() + b'{"role":"user","content":"x","turn":1%030d}\n' % 0)
    (found,) = (await examine_root(services)).findings
    assert (found.code, found.line, found.fixable) == ("line_broken", 6, True)
    assert "turn is greater than" in str(found.params["reason"])
    assert [finding.fixed for finding in await fixed(services)] == [True]
    assert await contents(services, instance) == ["问1", "答1", "问2", "答2"]


async def test_looking_changes_nothing(services: Services, session: Path) -> None:
    session.write_bytes(session.read_bytes() + b"junk\n" + b'{"role":"assistant","content":"to')
    before = session.read_bytes()
    await examine_root(services)
    assert session.read_bytes() == before
    assert sorted(path.name for path in session.parent.iterdir()) == ["sess_001.jsonl"]


async def test_a_torn_last_line_is_closed_as_interrupted(
    services: Services, session: Path, instance: str
) -> None:
    session.write_bytes(session.read_bytes() + '{"role":"assistant","content":"说到一半'.encode())
    assert codes(await examine_root(services)) == ["torn_line"]
    await fixed(services)
    page = await read_session(open_services(services.settings), instance)
    assert (page.entries[-1]["content"], page.entries[-1]["interrupted"]) == ("说到一半", True)


async def test_a_line_that_is_being_written_is_no_finding(
    services: Services, session: Path, instance: str
) -> None:
    session.write_bytes(session.read_bytes() + b'{"role":"assistant","content":"x')
    async with services.leases.holding(instance, "say", wait=1):
        assert codes(await examine_root(services)) == []


async def test_missing_metadata_is_added(services: Services, session: Path, instance: str) -> None:
    session.write_bytes(session.read_bytes().split(b"\n", 1)[1])
    assert codes(await examine_root(services)) == ["no_metadata"]
    await fixed(services)
    first = json.loads(session.read_bytes().split(b"\n")[0])
    assert (first["type"], first["instance_id"], first["session_id"]) == ("metadata", instance, "sess_001")
    assert await contents(services, instance) == ["问1", "答1", "问2", "答2"]


async def test_metadata_that_comes_late_is_moved_up(services: Services, session: Path, instance: str) -> None:
    first, second, rest = session.read_bytes().split(b"\n", 2)
    session.write_bytes(b"\n".join([second, first, rest]))
    assert codes(await examine_root(services)) == ["metadata_late"]
    await fixed(services)
    assert session.read_bytes().split(b"\n")[:2] == [first, second]


async def test_odd_ids_and_turns_are_reported_and_left_alone(
    services: Services, session: Path, instance: str
) -> None:
    text = session.read_text(encoding="utf-8").replace('"sess_001"', '"sess_009"')
    session.write_text(text.replace('"turn":2', '"turn":1'), encoding="utf-8")
    report = await examine_root(services, fix=True)
    assert codes(report) == ["id_mismatch", "turn_order"]
    assert not any(finding.fixed for finding in report.findings)
    assert not report.healthy


async def test_a_gap_in_the_turns_is_only_a_note(services: Services, session: Path) -> None:
    text = session.read_text(encoding="utf-8").replace('"turn":2', '"turn":5')
    session.write_text(text, encoding="utf-8")
    report = await examine_root(services)
    assert (codes(report), report.healthy) == (["turn_gap"], True)


async def test_a_lost_current_session_becomes_the_newest_there_is(
    services: Services, session: Path, instance: str
) -> None:
    session.rename(session.with_name("sess_002.jsonl"))
    report = await examine_root(services, fix=True)
    assert "session_missing" in codes(report)
    assert services.stories.instance(instance).current_session_id == "sess_002"


async def test_leftovers_are_swept_when_nobody_can_need_them(
    services: Services, session: Path, instance: str, root: Path
) -> None:
    folder = root / "instances"
    half = folder / ".new-0123456789ab"
    half.mkdir()
    (half / "instance_state.json").write_text("{}", encoding="utf-8")
    stale = [folder / instance / ".instance_state.json.01234567.tmp", root / ".config.json.89abcdef.tmp"]
    fresh = folder / instance / ".instance_state.json.aaaaaaaa.tmp"
    for path in (*stale, fresh):
        path.write_text("{", encoding="utf-8")
    long_ago = time.time() - 600
    for path in (half, *stale):
        os.utime(path, (long_ago, long_ago))
    (folder / instance / ".stop").write_text("someone", encoding="utf-8")
    report = await examine_root(services)
    assert sorted(codes(report)) == ["leftover", "leftover", "leftover", "stop_leftover"]
    await fixed(services)
    assert [path.exists() for path in (half, *stale, fresh)] == [False, False, False, True]


async def test_broken_files_of_every_kind_are_named(
    services: Services, session: Path, instance: str, root: Path
) -> None:
    spoiled = {
        "config.json": b"\xff\xfe\x00junk",
        "characters/char_maren/definition.json": b"[" * 100_000,
        "backgrounds/bg_wasteland/background.json": b'{"story_outline": [1]}',
        "prompt_templates/zh/mine.txt": b"\xff\xff",
        f"instances/{instance}/character_state.json": b"",
    }
    for name, content in spoiled.items():
        (root / name).write_bytes(content)
    report = await examine_root(services, fix=True)
    expected = {**dict.fromkeys(spoiled, "broken"), "config.json": "config_broken"}
    assert {finding.file: finding.code for finding in report.findings} == expected
    assert "personalab settings reset" in report.findings[0].remedy("en")
    assert all(finding.remedy("en") and finding.remedy("zh") for finding in report.findings)
    assert all((root / name).read_bytes() == content for name, content in spoiled.items())


async def test_switches_and_templates_come_back_from_the_shipped_ones(services: Services, root: Path) -> None:
    spoiled = {
        "modules/director.json": b'{"enabled": "yes"}',
        "modules/recall.json": b'{"trigger": "sometimes"}',
        "prompt_templates/zh/turn.txt": b"\xff\xff",
    }
    for name, content in spoiled.items():
        (root / name).write_bytes(content)
    report = await examine_root(services)
    assert all(finding.fixable and not finding.fixed for finding in report.findings)
    assert all((root / name).read_bytes() == content for name, content in spoiled.items())
    assert {finding.file for finding in await fixed(services)} == set(spoiled)
    for name, content in spoiled.items():
        assert (root / name).read_bytes() == (services.settings.shipped / name).read_bytes()
        assert (root / f"{name}.broken").read_bytes() == content
    (root / "modules" / "director.json").write_bytes(b"again")
    await fixed(services)
    assert (root / "modules" / "director.json.broken2").read_bytes() == b"again"


async def test_a_missing_switch_of_the_director_comes_back(services: Services, root: Path) -> None:
    (root / "modules" / "director.json").unlink()
    assert [(finding.code, finding.fixed) for finding in await fixed(services)] == [("missing", True)]
    assert services.preferences.read().notices == ()


async def test_an_older_switch_of_the_director_is_left_to_the_next_save(
    services: Services, root: Path
) -> None:
    old = {"features": {"director_plot_control": {"enabled": False}}}
    (root / "config.json").write_text(json.dumps(old), encoding="utf-8")
    (root / "modules" / "director.json").unlink()
    assert await fixed(services) == []
    assert not services.preferences.read().director.enabled


async def test_a_missing_persona_is_made_anew_from_the_character(
    services: Services, session: Path, instance: str, root: Path
) -> None:
    path = root / "instances" / instance / "character_state.json"
    before = path.read_bytes()
    path.unlink()
    assert [finding.fixable for finding in (await examine_root(services)).findings] == [True]
    await fixed(services)
    assert path.read_bytes() == before


async def test_a_missing_persona_whose_character_is_gone_is_only_told(
    services: Services, session: Path, instance: str, root: Path
) -> None:
    (root / "instances" / instance / "character_state.json").unlink()
    (root / "characters" / "char_alserqi" / "definition.json").unlink()
    report = await examine_root(services, fix=True)
    assert {(finding.code, finding.fixed) for finding in report.findings} == {("missing", False)}
    assert len(report.findings) == 2


async def test_a_session_that_is_a_link_is_told_and_left_alone(
    services: Services, session: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.jsonl"
    session.rename(elsewhere)
    elsewhere.write_bytes(elsewhere.read_bytes() + b"junk\n")
    session.symlink_to(elsewhere)
    report = await examine_root(services, fix=True)
    assert (codes(report), report.healthy) == (["not_a_file"], False)
    assert session.is_symlink()
    assert elsewhere.read_bytes().endswith(b"junk\n")


async def test_a_missing_config_is_written_anew(services: Services, root: Path) -> None:
    (root / "config.json").unlink()
    assert [finding.code for finding in await fixed(services)] == ["missing"]
    assert (root / "config.json").exists()


async def test_settings_out_of_range_are_named(services: Services, root: Path) -> None:
    (root / "config.json").write_text('{"limits": {"max_total_tokens": 5}}', encoding="utf-8")
    found = (await examine_root(services)).findings
    assert [finding.params for finding in found] == [{"fields": "limits.max_total_tokens"}]


async def test_a_background_that_is_gone_is_told(services: Services, session: Path, root: Path) -> None:
    (root / "backgrounds" / "bg_wasteland").rename(root / "backgrounds" / "bg_elsewhere")
    report = await examine_root(services)
    assert sorted(codes(report)) == ["background_missing", "id_mismatch"]


async def test_an_instance_someone_writes_is_not_repaired(
    hurried: Services, session: Path, instance: str
) -> None:
    session.write_bytes(session.read_bytes() + b"junk\n")
    async with hurried.leases.holding(instance, "say", wait=1):
        report = await examine_root(open_services(hurried.settings), fix=True)
    assert codes(report) == ["line_broken", "busy"]
    assert not report.healthy
    assert session.read_bytes().endswith(b"junk\n")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [_loop, _pipe, Path.mkdir])
async def test_things_that_are_no_files_are_never_opened(
    services: Services, session: Path, instance: str, root: Path, spoil: Callable[[Path], None]
) -> None:
    targets = [
        root / "config.json",
        root / "characters" / "char_maren" / "definition.json",
        root / "instances" / instance / "character_state.json",
        session,
    ]
    for path in targets:
        path.unlink()
        spoil(path)
    spoil(root / "instances" / instance / ".stop")
    _loop(root / "instances" / "loop")
    report = await examine_root(services, fix=True)
    named = {finding.file for finding in report.findings}
    assert {services.stories.shown(path) for path in targets} <= named
    assert not report.healthy


async def test_huge_and_deep_lines_are_bounded(services: Services, session: Path, instance: str) -> None:
    huge = b'{"role":"assistant","content":"' + b"x" * (50 * 1024 * 1024)
    deep = b'{"a":' * 100_000
    session.write_bytes(session.read_bytes() + deep + b"\n" + bytes(range(11, 256)) * 40 + b"\n" + huge)
    assert codes(await examine_root(services)) == ["line_broken", "line_broken", "torn_line"]
    await fixed(services)
    assert await contents(services, instance) == ["问1", "答1", "问2", "答2"]
    aside = session.with_suffix(".broken").read_bytes()
    assert deep in aside
    assert huge in aside


async def test_findings_speak_both_languages(services: Services, session: Path) -> None:
    session.write_bytes(session.read_bytes() + b"junk\n")
    told = (await examine_root(services)).as_json("en")["findings"][0]
    assert told["messages"]["zh"] != told["messages"]["en"] == told["message"]
    assert told["remedy"]


async def test_an_event_library_that_cannot_be_read_is_rebuilt(
    services: Services, session: Path, root: Path
) -> None:
    await reindex(services)
    for path in (root / "event_library").rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff junk")
    fresh = open_services(services.settings)
    assert codes(await examine_root(fresh)) == ["index_unreadable"]
    await fixed(open_services(services.settings))
