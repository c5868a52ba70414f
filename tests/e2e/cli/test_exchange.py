"""Tests of import and export at the terminal: messages, JSON output and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from tests.e2e.cli.conftest import CHECKOUT, SECONDS, Run
from tests.support.archive import making


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """A folder with a card, a lorebook, a chat and something else."""
    folder = tmp_path / "box"
    folder.mkdir()
    rows: list[object] = [
        {"user_name": "You", "character_name": "Seraphina", "create_date": "2024-01-01", "chat_metadata": {}},
        {"name": "Seraphina", "is_user": False, "mes": "Welcome.", "send_date": 1_700_000_000_000},
        {"name": "You", "is_user": True, "mes": "Where am I?", "send_date": 1_700_000_001_000},
    ]
    (folder / "a.jsonl").write_bytes(b"".join(making.json_bytes(row) + b"\n" for row in rows))
    (folder / "b.png").write_bytes(making.card_png(making.v2_card()))
    (folder / "c.json").write_bytes(making.json_bytes(making.character_book(name="Eldoria")))
    return folder


def test_a_folder_comes_in_and_what_each_file_became_is_told(personalab: Run, box: Path, root: Path) -> None:
    done = personalab("import", str(box))
    assert (done.returncode, done.stderr) == (0, "")
    assert "角色  seraphina  Seraphina" in done.stdout
    assert "背景  eldoria" in done.stdout
    assert "故事  inst_001" in done.stdout
    assert "导入 3 项，跳过 0 项" in done.stdout
    assert "Where am I?" in personalab("read", "inst_001").stdout
    listed = json.loads(personalab("library", "--json").stdout)
    assert "seraphina" in [entry["id"] for entry in listed["characters"]]


def test_what_was_skipped_is_listed_with_the_reason_and_is_exit_code_one(
    personalab: Run, box: Path, root: Path
) -> None:
    (box / "d.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    done = personalab("import", str(box), str(box / "nothing.png"))
    assert done.returncode == 1
    assert "seraphina" in done.stdout
    assert "JPEG 图片" in done.stderr
    assert "没有这个文件或目录" in done.stderr
    assert done.stderr.count("\n") == 2
    personalab("settings", "set", "language", "en")
    report = json.loads(personalab("import", str(box), "--json").stdout)
    assert {entry["outcome"] for entry in report["imported"]} == {"same"}
    [skipped] = report["skipped"]
    assert skipped["code"] == "format_unknown"
    assert "JPEG picture" in skipped["reason"]


def test_a_person_sees_how_far_it_is(terminal: Callable[..., pexpect.spawn[str]], box: Path) -> None:
    child = terminal("import", str(box))
    child.expect("正在导入 0/3")
    child.expect("导入 3 项")
    child.expect(pexpect.EOF)


@pytest.mark.parametrize(
    "words",
    [
        ("import",),
        ("import", "BOX", "--character", "nobody"),
        ("import", "BOX", "--id", "../up"),
        ("import", "BOX", "--id", "one"),
        ("export", "nobody"),
        ("export", "../x"),
        ("export", "char_maren", "--format", "markdown"),
        ("export", "char_maren", "--format", "docx"),
        ("export", "char_maren", "--format", "lorebook"),
        ("export", "char_maren", "--session", "sess_001"),
        ("export", "char_maren", "--format", "charx", "--card-version", "v2"),
        ("export", "char_maren", "--out", "-", "--json"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_sentence_and_exit_code_two(
    personalab: Run, box: Path, words: tuple[str, ...]
) -> None:
    done = personalab(*(str(box) if word == "BOX" else word for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_an_export_is_a_file_named_after_the_entry(
    personalab: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "export", "char_maren", "--json"],
        env={**environment, "PYTHONPATH": str(CHECKOUT)},
        cwd=tmp_path,
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    told = json.loads(done.stdout)
    assert (told["file"], told["format"], told["id"]) == ("char_maren.png", "card-png", "char_maren")
    written = (tmp_path / "char_maren.png").read_bytes()
    assert len(written) == told["bytes"]
    assert making.card_in(written, "ccv3")
    again = personalab("export", "char_maren", "--out", str(tmp_path))
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert personalab("export", "char_maren", "--out", str(tmp_path), "--overwrite").returncode == 0
    assert (tmp_path / "char_maren.png").read_bytes() == written


def test_standard_output_carries_the_bytes_and_nothing_else(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "export", "char_maren", "--out", "-"],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        cwd=CHECKOUT,
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    assert making.chunks_of(done.stdout)[-1][0] == b"IEND"
    assert done.stderr == b""


def test_a_story_goes_out_and_comes_in_again(personalab: Run, story: str, tmp_path: Path) -> None:
    path = tmp_path / "story.json"
    assert "story.json" in personalab("export", story, "-o", str(path)).stdout
    done = personalab("import", str(path), PERSONALAB_DATA=str(tmp_path / "other"))
    assert done.returncode == 0
    assert "新建  故事  inst_001" in done.stdout
    text = personalab(
        "export", "inst_001", "--format", "text", "--out", "-", PERSONALAB_DATA=str(tmp_path / "other")
    )
    assert text.returncode == 0


def test_a_file_cannot_steer_the_terminal(
    terminal: Callable[..., pexpect.spawn[str]], tmp_path: Path
) -> None:
    (tmp_path / "\x1b]0;evil\x07.json").write_bytes(making.json_bytes(making.v1_card(name="\x1b[2JBad\x07")))
    child = terminal("import", str(tmp_path / "\x1b]0;evil\x07.json"), LANG="en_GB.UTF-8")
    child.expect(pexpect.EOF)
    shown = child.before or ""
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert "Bad" in shown


def test_what_a_file_has_no_room_for_is_told(personalab: Run, story: str, root: Path, tmp_path: Path) -> None:
    state = json.loads((root / "instances" / story / "instance_state.json").read_bytes())
    (root / "characters" / state["character_id"] / "card.png").write_bytes(making.picture())
    named = f"characters/{state['character_id']}/card.png"
    told = personalab("export", story, "-o", str(tmp_path / "a.json"))
    assert (told.returncode, named in told.stderr) == (0, True)
    asked = personalab("export", story, "-o", str(tmp_path / "b.json"), "--json")
    assert json.loads(asked.stdout)["left_out"] == [named]


def test_a_book_that_is_given_is_no_new_character(personalab: Run, box: Path) -> None:
    done = personalab("import", str(box / "c.json"), "--into", "char_maren")
    assert done.stdout.startswith("得到世界书  角色  char_maren")


# --- what belongs together


def _changed_export(personalab: Run, tmp_path: Path) -> str:
    """Export a card, change it, and return its path."""
    path = tmp_path / "changed.json"
    personalab("export", "char_maren", "--format", "card-json", "-o", str(path))
    card = json.loads(path.read_bytes())
    card["data"]["description"] = "Changed elsewhere."
    path.write_bytes(making.json_bytes(card))
    return str(path)


def test_card_with_our_id_needs_a_flag(personalab: Run, root: Path, tmp_path: Path) -> None:
    path = _changed_export(personalab, tmp_path)
    before = (root / "characters/char_maren/definition.json").read_bytes()
    refused = personalab("import", path)
    assert refused.returncode == 1
    assert "--update" in refused.stderr
    assert (root / "characters/char_maren/definition.json").read_bytes() == before
    listed = json.loads(personalab("import", path, "--json").stdout)["imported"]
    assert [(row["outcome"], row["options"]) for row in listed] == [("exists", ["update", "copy", "skip"])]
    assert personalab("import", path, "--update", "--copy").returncode == 2
    updated = json.loads(personalab("import", path, "--update", "--json").stdout)["imported"]
    assert [(row["outcome"], row["id"]) for row in updated] == [("replaced", "char_maren")]
    assert b"Changed elsewhere." in (root / "characters/char_maren/definition.json").read_bytes()


def test_person_at_a_terminal_is_asked_about_a_card_with_our_id(
    personalab: Run, terminal: Callable[..., pexpect.spawn[str]], root: Path, tmp_path: Path
) -> None:
    child = terminal("import", _changed_export(personalab, tmp_path))
    child.expect("另存为新角色")
    child.expect("输入数字")
    child.sendline("3")
    child.expect("新建")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert b"Changed elsewhere." not in (root / "characters/char_maren/definition.json").read_bytes()


def test_card_that_comes_after_its_chat_and_before_its_world_is_told(
    personalab: Run, box: Path, root: Path
) -> None:
    (box / "b.png").unlink()
    card = making.v2_card(extensions={"world": "Eldoria"})
    card["data"].pop("character_book", None)
    (box / "b.json").write_bytes(making.json_bytes(card))
    personalab("import", str(box / "a.jsonl"))
    joined = personalab("import", str(box / "b.json"))
    assert joined.stdout.startswith("接上聊天  角色  seraphina")
    assert "“Eldoria”" in joined.stdout
    assert "seraphina" in personalab("import", str(box / "c.json")).stdout
    assert (root / "characters/seraphina/lorebook.json").is_file()
    out = personalab("export", "backgrounds/eldoria", "--format", "world-info", "-o", str(box))
    assert (box / "Eldoria.json").is_file(), out.stderr
