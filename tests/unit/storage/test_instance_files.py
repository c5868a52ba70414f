"""Tests of reading and writing whole stories without loss, all or nothing."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.archive.instances import InstanceFiles, archive_of, instance_of
from personalab.archive.veloca import check_archive
from personalab.archive.veloca_lines import SessionLines
from personalab.errors import BadRecord, NotFound, StorageError, UserError
from personalab.services import Services
from personalab.storage import instance_files
from personalab.storage.instance_files import read_instance, write_instance
from personalab.storage.stories import StoryFiles
from personalab.story.transcript import AssistantLine, Metadata, UserLine, dump_line
from tests.support.archive.random_instances import again, instances
from tests.support.graph.worked_example import lay_out

NOW = "2025-10-16T10:30:00Z"


def through_veloca(files: InstanceFiles) -> InstanceFiles:
    """Let a story go through a Veloca file's text."""
    doc = json.loads(json.dumps(archive_of(files)))
    assert check_archive(doc) == []
    return instance_of(doc)


def contents(folder: Path) -> dict[str, bytes]:
    """Give all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@given(instances())
def test_whatever_is_in_a_story_survives_files_and_veloca(files: InstanceFiles) -> None:
    files = replace(files, sessions=tuple(again(session) for session in files.sessions))
    with TemporaryDirectory() as place:
        stories = StoryFiles(Path(place))
        write_instance(stories, files, "inst_001")
        first = read_instance(stories, "inst_001")
        assert first == replace(files, character=None, background=None)
        elsewhere = StoryFiles(Path(place, "elsewhere"))
        write_instance(elsewhere, through_veloca(first), "inst_001")
        assert read_instance(elsewhere, "inst_001") == first
        assert contents(elsewhere.instances) == contents(stories.instances)


def test_the_worked_example_goes_to_another_root_with_all_it_is_played_with(
    services: Services, tmp_path: Path
) -> None:
    stories = services.stories
    lay_out(stories.root)
    book = stories.beside("characters", "char_alserqi", "lorebook.json")
    book.write_text('{"entries": []}', encoding="utf-8")
    (stories.instances / "inst_001" / "sessions" / "sess_002.jsonl").write_bytes(
        dump_line(Metadata("inst_001", "sess_002", NOW)) + dump_line(UserLine("早", 1, NOW))
    )
    files = through_veloca(read_instance(stories, "inst_001"))
    assert files.character is not None
    assert files.background is not None
    assert files.character.beside == {"lorebook.json": {"entries": []}}
    assert files.background.definition == stories.background("bg_wasteland").source
    elsewhere = StoryFiles(tmp_path / "elsewhere")
    write_instance(elsewhere, files, "inst_001")
    assert contents(elsewhere.instances) == contents(stories.instances)
    assert elsewhere.instance("inst_001") == stories.instance("inst_001")
    moved = elsewhere.session("inst_001", "sess_003").transcript
    assert moved.turns == stories.session("inst_001", "sess_003").transcript.turns


def test_under_another_id_every_line_that_names_the_story_names_the_new_one(
    services: Services, instance: str
) -> None:
    files = read_instance(services.stories, instance)
    write_instance(services.stories, files, "inst_002")
    assert services.stories.instance("inst_002").instance_id == "inst_002"
    metadata = services.stories.session("inst_002", "sess_001").transcript.metadata
    assert metadata is not None
    assert (metadata.instance_id, metadata.session_id) == ("inst_002", "sess_001")
    assert read_instance(services.stories, instance) == files


def test_an_existing_story_is_never_overwritten(services: Services, instance: str) -> None:
    before = contents(services.stories.instances)
    files = read_instance(services.stories, instance)
    with pytest.raises(UserError) as caught:
        write_instance(services.stories, replace(files, character_state={"base_persona": "other"}), instance)
    assert caught.value.code == "instance_exists"
    assert contents(services.stories.instances) == before


def test_not_even_an_empty_folder_is_taken_for_free(services: Services, instance: str) -> None:
    files = read_instance(services.stories, instance)
    (services.stories.instances / "inst_002").mkdir()
    with pytest.raises(UserError) as caught:
        write_instance(services.stories, files, "inst_002")
    assert caught.value.code == "instance_exists"
    assert list((services.stories.instances / "inst_002").iterdir()) == []


@pytest.mark.parametrize("instance_id", ["../x", "", "a/b", ".hidden", "con"])
def test_an_id_that_is_none_is_refused_before_anything_is_touched(
    services: Services, instance: str, instance_id: str
) -> None:
    files = read_instance(services.stories, instance)
    before = contents(services.stories.root)
    for touch in (
        lambda: write_instance(services.stories, files, instance_id),
        lambda: read_instance(services.stories, instance_id),
    ):
        with pytest.raises(UserError) as caught:
            touch()
        assert caught.value.code == "bad_id"
    assert contents(services.stories.root) == before


def test_what_cannot_be_played_is_refused_and_nothing_is_left(services: Services, instance: str) -> None:
    files = read_instance(services.stories, instance)
    line = Metadata("inst_001", "x", NOW)
    for broken in (
        replace(files, sessions=()),
        replace(files, state={}),
        replace(files, character_state={}),
        replace(files, sessions=(*files.sessions, SessionLines("../x", (line,)))),
        replace(files, documents={"../x.json": {}}),
        replace(files, pieces={".lock": b""}),
        replace(files, pieces={"sessions": b""}),
        replace(files, pieces={"sessions/sess_001.jsonl": b""}),
    ):
        with pytest.raises((BadRecord, UserError)):
            write_instance(services.stories, broken, "inst_009")
    assert [path.name for path in services.stories.instances.iterdir()] == [instance]


def test_a_write_that_fails_half_way_leaves_nothing(services: Services, instance: str) -> None:
    files = read_instance(services.stories, instance)
    (session,) = files.sessions
    long = SessionLines("sess_002", (*session.lines, UserLine("x" * 200_000, 1, NOW)))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, old[1]))
    try:
        with pytest.raises(StorageError) as caught:
            write_instance(services.stories, replace(files, sessions=(session, long)), "inst_002")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert caught.value.code == "not_writable"
    assert [path.name for path in services.stories.instances.iterdir()] == [instance]


def test_a_root_without_room_for_stories_is_named(services: Services, instance: str, tmp_path: Path) -> None:
    files = read_instance(services.stories, instance)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "instances").write_text("a file", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        write_instance(StoryFiles(tmp_path / "other"), files, "inst_002")
    assert caught.value.params["file"] == "instances/inst_002"


def test_a_reply_that_was_never_finished_goes_along_as_interrupted(services: Services, instance: str) -> None:
    path = services.stories.session_path(instance, "sess_001")
    with path.open("ab") as file:
        file.write(dump_line(UserLine("Hi", 1, NOW)))
        file.write(b'{"role":"assistant","content":"Hello, my')
    (session,) = read_instance(services.stories, instance).sessions
    last = session.lines[-1]
    assert isinstance(last, AssistantLine)
    assert (last.content, last.turn, last.interrupted) == ("Hello, my", 1, True)
    assert last.timestamp


def test_bytes_that_are_no_line_go_along_beside(services: Services, instance: str) -> None:
    path = services.stories.session_path(instance, "sess_001")
    path.with_suffix(".torn").write_bytes(b"older\n")
    with path.open("ab") as file:
        file.write(b"\xff rubbish\x00\x00")
    files = read_instance(services.stories, instance)
    assert files.pieces == {"sessions/sess_001.torn": b"older\n\xff rubbish\n"}
    write_instance(services.stories, through_veloca(files), "inst_002")
    assert read_instance(services.stories, "inst_002").pieces == files.pieces


def test_a_broken_line_is_named(services: Services, instance: str) -> None:
    path = services.stories.session_path(instance, "sess_001")
    path.write_bytes(path.read_bytes() + b"\nnonsense\n")
    with pytest.raises(StorageError) as caught:
        read_instance(services.stories, instance)
    assert caught.value.code == "line_broken"
    assert (caught.value.params["line"], caught.value.params["file"]) == (
        3,
        "instances/inst_001/sessions/sess_001.jsonl",
    )


@pytest.mark.parametrize("name", ["instance_state.json", "character_state.json"])
def test_a_broken_state_is_named(services: Services, instance: str, name: str) -> None:
    (services.stories.instances / instance / name).write_text("[]", encoding="utf-8")
    with pytest.raises(StorageError) as caught:
        read_instance(services.stories, instance)
    assert caught.value.code == "file_broken"
    assert caught.value.params["file"] == f"instances/inst_001/{name}"


def test_a_story_that_is_not_there(services: Services) -> None:
    with pytest.raises(NotFound):
        read_instance(services.stories, "inst_404")


def test_a_story_that_is_too_large_is_refused_before_it_is_read(services: Services, instance: str) -> None:
    path = services.stories.session_path(instance, "sess_001")
    with path.open("ab") as file:
        file.truncate(instance_files.MAX_INSTANCE_BYTES + 1)
    with pytest.raises(StorageError) as caught:
        read_instance(services.stories, instance)
    assert caught.value.code == "instance_too_large"
    assert "inst_001" in caught.value.message("zh")


def test_locks_links_and_folders_stay_where_they_are(
    services: Services, instance: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    folder = services.stories.instances / instance
    (folder / "link.txt").symlink_to(secret)
    (folder / ".lock").write_text("x", encoding="utf-8")
    (folder / "more").mkdir()
    (folder / "note.txt").write_text("mine", encoding="utf-8")
    files = read_instance(services.stories, instance)
    assert files.pieces == {"note.txt": b"mine"}
    assert files.documents == {}


def test_a_character_that_is_gone_or_broken_stays_behind(services: Services, instance: str) -> None:
    stories = services.stories
    (stories.root / "characters" / "char_alserqi" / "definition.json").write_text("{", encoding="utf-8")
    (stories.root / "backgrounds" / "bg_wasteland" / "background.json").unlink()
    files = read_instance(stories, instance)
    assert (files.character, files.background) == (None, None)
    assert files.state["character_id"] == "char_alserqi"


@given(st.binary(max_size=60))
def test_no_session_file_breaks_the_reader(raw: bytes) -> None:
    with TemporaryDirectory() as place:
        stories = StoryFiles(Path(place))
        folder = stories.instances / "inst_001"
        (folder / "sessions").mkdir(parents=True)
        state = {"instance_id": "inst_001", "character_id": "a", "current_session_id": "sess_001"}
        (folder / "instance_state.json").write_text(json.dumps(state), encoding="utf-8")
        (folder / "character_state.json").write_text('{"base_persona": "x"}', encoding="utf-8")
        (folder / "sessions" / "sess_001.jsonl").write_bytes(raw)
        try:
            files = read_instance(stories, "inst_001")
        except StorageError:
            return
        write_instance(stories, through_veloca(files), "inst_002")
        assert read_instance(stories, "inst_002").sessions[0].lines == files.sessions[0].lines
