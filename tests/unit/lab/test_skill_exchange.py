"""Skills come in from folders and files, leave as they came, and personas go both ways."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from personalab.errors import NotFound, PersonaLabError, StorageError, UserError
from personalab.lab.tagging import visible_line
from personalab.operations.lab import exchange
from personalab.operations.lab.baselines import create_baseline, edit_case, remove_case
from personalab.operations.lab.skills import create_skill, edit_skill
from personalab.operations.lab.tags import add_tag
from personalab.operations.library import save_character
from personalab.services import Services, open_services
from personalab.settings import read_settings
from tests.support.graph.turns import snapshot

pytestmark = pytest.mark.anyio

NOW = "2025-10-16T10:30:00Z"
SKILL = (
    "---\nname: pdf-tools\ndescription: Works with PDF files.\nlicense: MIT\nmetadata:\n  author: Ann\n---\n"
    "\n# PDF\n\nRead it first.\r\nThen write."
)
EVALS = json.dumps(
    {
        "skill_name": "pdf-tools",
        "evals": [
            {"id": 1, "prompt": "Join two files", "expected_output": "One file", "files": ["evals/a.pdf"]},
            {"id": 2, "prompt": "An empty file", "expectations": ["It says so"]},
        ],
    },
    indent=1,
)
_FOLDER = {
    "SKILL.md": SKILL.encode(),
    "evals/evals.json": EVALS.encode(),
    "evals/a.pdf": b"%PDF\x00\xff",
    "scripts/join.sh": b"#!/bin/sh\necho $1\n",
    ".hidden/%41.txt": b"kept",
    "references/\u8bf4\u660e.md": "说明".encode(),
}


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A skill's folder as someone else made it."""
    made = _write(tmp_path / "pdf-tools", _FOLDER)
    (made / "scripts" / "join.sh").chmod(0o755)
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Services:
    """Another data root."""
    made = open_services(read_settings({"PERSONALAB_DATA": str(tmp_path / "other")}))
    made.now = lambda: NOW
    return made


async def _refused(services: Services, path: Path, **given: Any) -> PersonaLabError:
    """Check that an import is refused and leaves nothing."""
    root = services.settings.data_root / "workspace"
    before = snapshot(root)
    with pytest.raises(PersonaLabError) as raised:
        await exchange.import_skill(services, path, **given)
    after = {name: content for name, content in snapshot(root).items() if Path(name).name != ".lock"}
    assert after == {name: content for name, content in before.items() if Path(name).name != ".lock"}
    assert raised.value.message("zh")
    return raised.value


# --- a folder with a SKILL.md


async def test_a_folder_comes_in_whole_and_leaves_byte_for_byte(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, baseline = await exchange.import_skill(services, folder, purpose="docs", provider="ann")
    kept = services.assets.skill(skill.id)
    assert (kept.meta.name, kept.meta.description, kept.meta.author) == (
        "pdf-tools",
        "Works with PDF files.",
        "Ann",
    )
    assert (kept.meta.purpose, kept.meta.provider, kept.meta.version) == ("docs", "ann", "v1")
    assert kept.content == "\n# PDF\n\nRead it first.\r\nThen write."
    cases = services.assets.baseline(baseline.id).cases.cases
    assert [(case.id, case.input, case.expected_output) for case in cases] == [
        ("case_001", "Join two files", "One file"),
        ("case_002", "An empty file", "- It says so"),
    ]
    for given_id in (None, baseline.id):
        out = tmp_path / f"out-{given_id}"
        written = await exchange.export_skill(services, skill.id, out, baseline_id=given_id)
        assert _files(out / "pdf-tools") == _FOLDER
        assert {path.relative_to(out / "pdf-tools").as_posix() for path in written} == set(_FOLDER)
        assert os.access(out / "pdf-tools" / "scripts" / "join.sh", os.X_OK)
        assert not os.access(out / "pdf-tools" / "SKILL.md", os.X_OK)


async def test_the_same_folder_again_is_the_same_skill(services: Services, folder: Path) -> None:
    first = await exchange.import_skill(services, folder, purpose="docs")
    again = await exchange.import_skill(services, folder / "SKILL.md", purpose="docs")
    assert [came.outcome for came in first] == ["created", "created"]
    assert [(came.id, came.outcome) for came in again] == [(came.id, "same") for came in first]
    (folder / "scripts" / "join.sh").write_bytes(b"other")
    changed, baseline = await exchange.import_skill(services, folder, purpose="docs")
    assert (changed.outcome, baseline.outcome) == ("created", "same")


async def test_a_changed_skill_keeps_what_it_came_with(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, baseline = await exchange.import_skill(services, folder)
    await edit_skill(services, skill.id, content="Better.\n")
    await edit_case(services, baseline.id, "case_001", name="Joining")
    await exchange.export_skill(services, skill.id, tmp_path / "out", baseline_id=baseline.id)
    files = _files(tmp_path / "out" / "pdf-tools")
    changed = {name for name, content in files.items() if _FOLDER[name] != content}
    assert changed == {"SKILL.md", "evals/evals.json"}
    assert set(files) == set(_FOLDER)
    assert b"license: MIT" in files["SKILL.md"]
    assert files["SKILL.md"].endswith(b"---\nBetter.\n")
    assert json.loads(files["evals/evals.json"])["evals"][0]["files"] == ["evals/a.pdf"]


@pytest.mark.parametrize("junk", ["{", "[]", "[" * 9_000, '{"files": []}', '{"called": "a", "files": [{}]}'])
async def test_a_broken_list_of_what_a_skill_came_with_is_told_and_nothing_leaves_without_it(
    services: Services, folder: Path, tmp_path: Path, junk: str
) -> None:
    skill, _ = await exchange.import_skill(services, folder)
    (services.assets.skill(skill.id).folder / "x_source.json").write_text(junk, encoding="utf-8")
    with pytest.raises(StorageError, match=r"x_source\.json"):
        await exchange.export_skill(services, skill.id, tmp_path / "out")
    assert not (tmp_path / "out").exists()


async def test_what_left_comes_back_to_the_same_place_as_the_next_version(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, baseline = await exchange.import_skill(services, folder, purpose="docs")
    await edit_skill(services, skill.id, content="Better.\n")
    await exchange.export_skill(services, skill.id, tmp_path, baseline_id=baseline.id, overwrite=True)
    same, _ = await exchange.import_skill(services, folder)
    assert (same.id, same.version, same.outcome) == (skill.id, "v2", "same")
    text = (folder / "SKILL.md").read_text(encoding="utf-8")
    (folder / "SKILL.md").write_text(text.replace("Better.", "Best."), encoding="utf-8")
    (folder / "scripts" / "join.sh").unlink()
    newer, _ = await exchange.import_skill(services, folder)
    assert (newer.id, newer.version, newer.outcome) == (skill.id, "v3", "updated")
    stored = services.assets.skill(skill.id)
    assert (stored.content, stored.meta.purpose) == ("Best.\n", "docs")
    await exchange.export_skill(services, skill.id, tmp_path / "out")
    assert "scripts/join.sh" not in _files(tmp_path / "out" / "pdf-tools")


async def test_what_is_given_counts_before_what_the_file_says(services: Services, folder: Path) -> None:
    skill, baseline = await exchange.import_skill(services, folder, purpose="mine", name="我的工具")
    assert skill.name == "我的工具"
    assert skill.folder.startswith("workspace/skills/mine/local/skill_")
    assert baseline.name == "Evals of 我的工具"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
_TAG = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=30).filter(
    lambda tag: visible_line(tag) == tag
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(name=_TEXT, content=_TEXT, description=st.just("") | _TEXT, author=_TEXT, tag=_TAG)
async def test_a_skill_made_here_comes_to_another_library_as_it_is(
    services: Services,
    elsewhere: Services,
    tmp_path: Path,
    name: str,
    content: str,
    description: str,
    author: str,
    tag: str,
) -> None:
    made = await create_skill(
        services,
        name=name,
        content=content,
        purpose="a",
        type="agent",
        description=description,
        author=author,
    )
    services.assets.change_tags(made, lambda _: _tagged(tag))
    out = tmp_path / made.meta.id
    baseline = services.assets.baselines()[0]
    written = await exchange.export_skill(services, made.meta.id, out, baseline_id=baseline.meta.id)
    came, cases = await exchange.import_skill(elsewhere, written[0].parent)
    found = elsewhere.assets.skill(came.id)
    assert (found.meta, found.content, found.tags.valid()) == (made.meta, content, [tag])
    kept = elsewhere.assets.baseline(cases.id)
    assert (kept.meta.id, kept.cases) == (baseline.meta.id, baseline.cases)
    again = tmp_path / f"again-{made.meta.id}"
    second = await exchange.export_skill(elsewhere, came.id, again)
    assert _files(second[0].parent) == _files(written[0].parent)


def _tagged(value: str) -> Any:
    from personalab.lab.assets import ManualTag, Tags

    tag = ManualTag(id="2abeadd6-a506-40ee-a0c7-23f42a98bda8", value=value, created_at=NOW)
    return Tags(manual=(tag,), auto=())


async def test_an_id_that_begins_like_another_is_refused(services: Services, folder: Path) -> None:
    taken = services.assets.skills()[0].meta.id
    other = f"{taken[:8]}-0000-4000-8000-000000000000"
    marked = SKILL.replace("  author: Ann", f'  personalab-id: "{other}"')
    (folder / "SKILL.md").write_text(marked, encoding="utf-8")
    assert (await _refused(services, folder)).code == "lab_short_id_taken"


async def test_a_tag_given_here_leaves_with_the_skill(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, _ = await exchange.import_skill(services, folder)
    await add_tag(services, "skill", skill.id, "PDF")
    await exchange.export_skill(services, skill.id, tmp_path / "out")
    assert b"personalab-tags" in (tmp_path / "out" / "pdf-tools" / "SKILL.md").read_bytes()


async def _left(services: Services, folder: Path, tmp_path: Path) -> tuple[Path, str, str]:
    """Bring a folder in and write it out with its id; give the folder and both ids."""
    skill, baseline = await exchange.import_skill(services, folder, purpose="docs")
    await edit_skill(services, skill.id, content="Better.\n")
    await edit_case(services, baseline.id, "case_001", name="Joining")
    out = tmp_path / "out"
    await exchange.export_skill(services, skill.id, out, baseline_id=baseline.id)
    return out / "pdf-tools", skill.id, baseline.id


def _changed_script(out: Path) -> None:
    (out / "scripts" / "join.sh").write_bytes(b"other")


def _not_executable(out: Path) -> None:
    (out / "scripts" / "join.sh").chmod(0o644)


def _added_file(out: Path) -> None:
    (out / "new.txt").write_bytes(b"new")


def _removed_file(out: Path) -> None:
    (out / "references" / "\u8bf4\u660e.md").unlink()


def _changed_license(out: Path) -> None:
    main = out / "SKILL.md"
    main.write_bytes(main.read_bytes().replace(b"license: MIT", b"license: Apache-2.0"))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_changed_script, "scripts/join.sh"),
        (_not_executable, "scripts/join.sh"),
        (_added_file, "new.txt"),
        (_removed_file, "references/\u8bf4\u660e.md"),
        (_changed_license, "SKILL.md"),
    ],
)
async def test_a_file_that_changed_around_a_skill_makes_its_next_version(
    services: Services, folder: Path, tmp_path: Path, change: Callable[[Path], None], name: str
) -> None:
    out, skill_id, _ = await _left(services, folder, tmp_path)
    assert [came.outcome for came in await exchange.import_skill(services, out)] == ["same", "same"]
    change(out)
    came, baseline = await exchange.import_skill(services, out)
    assert (came.id, came.version, came.outcome, baseline.outcome) == (skill_id, "v3", "updated", "same")
    (record,) = services.assets.history(services.assets.skill(skill_id))[1:]
    assert record.changed_fields == (f"x_source/{name}",)
    assert [came.outcome for came in await exchange.import_skill(services, out)] == ["same", "same"]
    await exchange.export_skill(services, skill_id, tmp_path / "again")
    again = _files(tmp_path / "again" / "pdf-tools")
    mine = _files(out)
    for files in (again, mine):
        files["SKILL.md"] = files["SKILL.md"].replace(b"version: v2", b"version: v3")
    assert again == mine
    script = "scripts/join.sh"
    assert os.access(tmp_path / "again" / "pdf-tools" / script, os.X_OK) == os.access(out / script, os.X_OK)


@pytest.mark.parametrize("place", ["top", "row", "files"])
async def test_what_is_not_read_of_evals_makes_the_next_version_of_their_baseline(
    services: Services, folder: Path, tmp_path: Path, place: str
) -> None:
    out, _, baseline_id = await _left(services, folder, tmp_path)
    path = out / "evals" / "evals.json"
    data = json.loads(path.read_bytes())
    if place == "top":
        data["note"] = "new"
    elif place == "row":
        data["evals"][1]["timeout"] = 7
    else:
        data["evals"][0]["files"] = ["evals/b.pdf"]
    path.write_text(json.dumps(data), encoding="utf-8")
    skill, came = await exchange.import_skill(services, out)
    assert (skill.outcome, came.id, came.version, came.outcome) == ("same", baseline_id, "v3", "updated")
    assert [one.outcome for one in await exchange.import_skill(services, out)] == ["same", "same"]
    await exchange.export_skill(services, skill.id, tmp_path / "again", baseline_id=baseline_id)
    again = json.loads((tmp_path / "again" / "pdf-tools" / "evals" / "evals.json").read_bytes())
    for found in (again, data):
        del found["x_personalab"]
    assert again == data


async def test_tags_that_were_added_in_the_file_come_in_and_none_goes(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, _ = await exchange.import_skill(services, folder)
    await add_tag(services, "skill", skill.id, "PDF")
    await exchange.export_skill(services, skill.id, tmp_path / "out")
    main = tmp_path / "out" / "pdf-tools" / "SKILL.md"
    raw = main.read_bytes()
    assert b'["PDF"]' in raw.replace(b"\\", b"")
    main.write_bytes(raw.replace(b"PDF", b"Files", 2).replace(b"Works with Files", b"Works with PDF"))
    await add_tag(services, "skill", skill.id, "mine")
    came, _ = await exchange.import_skill(services, main)
    kept = services.assets.skill(skill.id)
    assert (came.outcome, kept.meta.version) == ("updated", "v1")
    assert kept.tags.valid() == ["PDF", "mine", "Files"]
    assert (await exchange.import_skill(services, main))[0].outcome == "same"


def _linked_out(folder: Path) -> None:
    (folder / "secret").symlink_to("/etc/hostname")


def _linked_folder(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _bad_name(folder: Path) -> None:
    (folder / "a\nb.txt").write_bytes(b"")


def _too_many(folder: Path) -> None:
    for number in range(500):
        (folder / f"{number}.txt").write_bytes(b"")


def _too_large(folder: Path) -> None:
    with (folder / "big.bin").open("wb") as file:
        file.truncate(17 * 1024 * 1024)


def _bad_evals(folder: Path) -> None:
    (folder / "evals" / "evals.json").write_bytes(b'{"evals": [{}]}')


def _no_skill(folder: Path) -> None:
    (folder / "SKILL.md").unlink()


def _no_body(folder: Path) -> None:
    (folder / "SKILL.md").write_bytes(b"---\nname: a\n---\n\n")


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (_linked_out, "lab_bad_inner"),
        (_linked_folder, "lab_bad_inner"),
        (_pipe, "lab_bad_inner"),
        (_bad_name, "lab_bad_inner"),
        (_too_many, "lab_folder_large"),
        (_too_large, "lab_file_large"),
        (_bad_evals, "lab_bad_record"),
        (_no_skill, "lab_no_skill_md"),
        (_no_body, "lab_file_blank"),
    ],
)
async def test_a_folder_that_cannot_be_trusted_leaves_nothing_behind(
    services: Services, folder: Path, break_it: Callable[[Path], None], code: str
) -> None:
    break_it(folder)
    assert (await _refused(services, folder)).code == code


async def test_a_baseline_that_cannot_be_kept_takes_its_skill_back(services: Services, folder: Path) -> None:
    """The second of the two is refused only when it is written: its id begins like another's."""
    taken = services.assets.baselines()[0].meta.id
    stated = {"id": f"{taken[:8]}-0000-4000-8000-000000000000"}
    evals = {**json.loads(EVALS), "x_personalab": stated}
    (folder / "evals" / "evals.json").write_text(json.dumps(evals), encoding="utf-8")
    assert (await _refused(services, folder, purpose="docs")).code == "lab_short_id_taken"
    assert all(skill.meta.purpose != "docs" for skill in services.assets.skills())


async def test_what_tools_leave_behind_does_not_come_in(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    _write(folder, {".git/config": b"x", "scripts/__pycache__/a.pyc": b"x", ".DS_Store": b"x"})
    skill, _ = await exchange.import_skill(services, folder)
    await exchange.export_skill(services, skill.id, tmp_path / "out")
    assert _files(tmp_path / "out" / "pdf-tools") == _FOLDER


async def test_an_export_writes_over_nothing_unless_asked(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, _ = await exchange.import_skill(services, folder)
    mine = _write(tmp_path / "out" / "pdf-tools", {"SKILL.md": b"mine", "notes.txt": b"mine"})
    with pytest.raises(UserError, match="pdf-tools"):
        await exchange.export_skill(services, skill.id, tmp_path / "out")
    assert _files(mine) == {"SKILL.md": b"mine", "notes.txt": b"mine"}
    await exchange.export_skill(services, skill.id, tmp_path / "out", overwrite=True)
    assert _files(mine) == {**_FOLDER, "notes.txt": b"mine"}


async def test_an_export_does_not_follow_a_link_out_of_its_folder(
    services: Services, folder: Path, tmp_path: Path
) -> None:
    skill, _ = await exchange.import_skill(services, folder)
    outside = _write(tmp_path / "outside", {"join.sh": b"theirs"})
    mine = _write(tmp_path / "out" / "pdf-tools", {"SKILL.md": b"mine"})
    (mine / "scripts").symlink_to(outside)
    with pytest.raises(UserError, match="scripts"):
        await exchange.export_skill(services, skill.id, tmp_path / "out", overwrite=True)
    assert _files(outside) == {"join.sh": b"theirs"}


# --- texts and promptfoo


async def test_a_text_comes_in_as_it_is(services: Services, tmp_path: Path) -> None:
    path = (
        _write(tmp_path / "in", {"helper.md": "---\nx\n---\n# Helper\n\n帮忙。\r\n".encode()}) / "helper.md"
    )
    (came,) = await exchange.import_skill(services, path, purpose="docs")
    kept = services.assets.skill(came.id)
    assert (kept.meta.name, kept.meta.source) == ("Helper", "helper.md")
    assert (kept.folder / "content.txt").read_bytes() == path.read_bytes()
    assert (await exchange.import_skill(services, path, purpose="docs"))[0].outcome == "same"


async def test_a_promptfoo_configuration_comes_in_and_leaves(services: Services, tmp_path: Path) -> None:
    config = (
        b"description: Greetings\nprompts: [file://a.txt, 'Be kind.']\ntests:\n  - vars: {x: Hello there}\n"
    )
    folder = _write(tmp_path / "in", {"c.yaml": config, "a.txt": b"Be brief."})
    came = await exchange.import_skill(services, folder / "c.yaml", purpose="talk", provider="us")
    assert [(one.kind, one.name) for one in came] == [
        ("skill", "a"),
        ("skill", "Be kind."),
        ("baseline", "Greetings"),
    ]
    out = tmp_path / "out"
    ids = [came[0].id, came[1].id]
    await exchange.export_promptfoo(services, ids, came[2].id, out, model="openai:x")
    again = await exchange.import_skill(services, out / "promptfooconfig.yaml", purpose="back")
    assert [services.assets.skill(one.id).content for one in again[:2]] == ["Be brief.", "Be kind."]
    assert services.assets.baseline(again[2].id).cases.cases[0].input == "Hello there"


async def test_a_configuration_that_left_comes_back_as_it_was(services: Services, tmp_path: Path) -> None:
    content = "Use {{name}} and {% raw %} and {% endraw %} here"
    skill = await create_skill(services, name="Tpl", content=content, purpose="a")
    rows = [
        {"name": "One", "input": "Say {{x}}", "expected_output": "It says {{x}}", "category": "boundary"},
        {"name": "Two " * 30, "input": "Go", "expected_output": "- a\n- b", "description": "why"},
        {"name": "Three", "input": "{{ '{% endraw %}' }}", "expected_output": ""},
    ]
    made = await create_baseline(services, name="Set", purpose="a", cases=rows)
    baseline = await remove_case(services, made.meta.id, "case_001")
    await exchange.export_promptfoo(
        services, [skill.meta.id], made.meta.id, tmp_path / "out", model="openai:x"
    )
    came, cases = await exchange.import_skill(services, tmp_path / "out" / "promptfooconfig.yaml")
    back = services.assets.baseline(cases.id)
    assert (came.name, services.assets.skill(came.id).content) == ("Tpl", content)
    assert (back.meta.name, back.meta.description) == ("Set", "")
    assert [case.fields("") | {"created_at": "", "updated_at": ""} for case in back.cases.cases] == [
        case.fields("") | {"created_at": "", "updated_at": ""} for case in baseline.cases.cases
    ]


async def test_a_configuration_reaches_nothing_outside_its_folder(services: Services, tmp_path: Path) -> None:
    folder = _write(tmp_path / "in", {"c.yaml": b"prompts: [file://link.txt]\n"})
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert (await _refused(services, folder / "c.yaml")).code == "lab_bad_inner"


@pytest.mark.parametrize(
    ("name", "code"),
    [("none.md", "lab_nothing_there"), ("a.docx", "lab_format_unknown"), ("x.yaml", "lab_nothing_there")],
)
async def test_what_is_not_there_or_unknown_is_named(
    services: Services, tmp_path: Path, name: str, code: str
) -> None:
    error = await _refused(services, tmp_path / name)
    assert error.code == code
    assert name in str(error)


async def test_a_place_that_is_none_is_refused_before_anything_is_read(
    services: Services, folder: Path
) -> None:
    assert (await _refused(services, folder, purpose="../x")).code == "lab_bad_name"
    assert (await _refused(services, folder, name=" ")).code == "lab_blank"


# --- personas


async def test_a_persona_goes_on_the_bench_as_its_prompt_carries_it(services: Services) -> None:
    await save_character(
        services, "nora", name="Nora", base_persona="{{char}} dives. She trusts nobody.", language="en"
    )
    came = await exchange.import_persona(services, "nora")
    kept = services.assets.skill(came.id)
    assert kept.content == "Nora dives. She trusts nobody."
    assert (kept.meta.purpose, kept.meta.provider, kept.meta.source) == (
        "persona",
        "personalab",
        "character:nora",
    )
    assert (await exchange.import_persona(services, "nora")).outcome == "same"
    await save_character(services, "nora", base_persona="{{char}} dives deep.", overwrite=True)
    newer = await exchange.import_persona(services, "nora")
    assert (newer.id, newer.version, newer.outcome) == (came.id, "v2", "updated")
    with pytest.raises(NotFound):
        await exchange.import_persona(services, "nobody")


async def test_a_skill_becomes_who_a_character_is(services: Services, root: Path) -> None:
    skill = await create_skill(
        services, name="新的人", content="你是一个沉默的灯塔看守人。\n", purpose="persona"
    )
    saved = await exchange.skill_to_character(services, skill.meta.id, "char_new")
    assert saved.created
    assert (saved.entry.name, saved.entry.language) == ("新的人", "zh")
    beside = root / "characters" / "char_maren" / "lorebook.json"
    beside.write_text("{}", encoding="utf-8")
    before = (root / "characters" / "char_maren" / "definition.json").read_bytes()
    with pytest.raises(UserError):
        await exchange.skill_to_character(services, skill.meta.id, "char_maren")
    assert (root / "characters" / "char_maren" / "definition.json").read_bytes() == before
    changed = await exchange.skill_to_character(services, skill.meta.id, "char_maren", overwrite=True)
    assert (changed.entry.name, changed.entry.base_persona) == ("Maren", "你是一个沉默的灯塔看守人。")
    assert beside.read_text(encoding="utf-8") == "{}"


async def test_a_persona_that_went_out_and_back_is_the_same_character(services: Services) -> None:
    before = services.stories.character("char_maren")
    came = await exchange.import_persona(services, "char_maren")
    await exchange.skill_to_character(services, came.id, "char_maren", overwrite=True)
    assert services.stories.character("char_maren") == before


# --- samples


async def test_samples_come_where_they_are_missing_and_nowhere_else(services: Services, root: Path) -> None:
    assert await exchange.install_samples(services) == []
    first = services.assets.skills()[0]
    await edit_skill(services, first.meta.id, name="Mine")
    gone = services.assets.baselines()[0]
    shutil.rmtree(gone.folder)
    (came,) = await exchange.install_samples(services)
    assert (came.kind, came.id) == ("baseline", gone.meta.id)
    assert services.assets.baseline(gone.meta.id) == gone
    assert services.assets.skill(first.meta.id).meta.name == "Mine"
    shutil.rmtree(root / "workspace")
    assert len(await exchange.install_samples(services)) == 6
