"""A SKILL.md becomes a skill and comes back: what is ours is all in it, what is theirs stays byte for byte."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord
from personalab.lab.assets import SkillMeta
from personalab.lab.formats.skill_md import (
    SkillMd,
    Stated,
    kebab,
    name_in_file,
    read_skill_md,
    skill_md,
    stated,
)
from personalab.lab.formats.yaml_text import dump_yaml

ID = "2abeadd6-a506-40ee-a0c7-23f42a98bda8"
NOW = "2025-10-16T10:30:00Z"
THEIRS = (
    "---\n# a comment\nname: pdf-tools\ndescription: >\n  Works with PDF files.\n  Use it often.\n"
    "license: MIT\nallowed-tools: Read Bash\n---\n\n# PDF\n\nDo it.\r\nNo newline at the end"
)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_FILLED = _TEXT.filter(str.strip)
_FOLDER = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,20}", fullmatch=True)


def _meta(**changes: object) -> SkillMeta:
    fields: dict[str, object] = {
        "id": ID,
        "name": "Skill",
        "purpose": "coding",
        "provider": "local",
        "version": "v1",
        "status": "active",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return SkillMeta.read({**fields, **changes}, "meta.json")


def _theirs() -> SkillMd:
    return read_skill_md(THEIRS.encode(), "SKILL.md", "pdf-tools")


def _come(said: Stated, body: str, **changes: object) -> tuple[SkillMeta, str]:
    """Give the skill that a file becomes, as an import does."""
    fields: dict[str, object] = {
        "name": said.name,
        "description": said.description,
        "author": said.author,
        "source": said.source,
        "type": said.type,
    }
    return _meta(**{**fields, **changes}), body


def _is_valid(raw: bytes) -> dict[str, Any]:
    """Check a file as the format's own validator does."""
    found = re.match(r"^---\n(.*?)\n---", raw.decode(), re.DOTALL)
    assert found is not None
    fields = yaml.safe_load(found[1])
    assert set(fields) <= {"name", "description", "license", "allowed-tools", "metadata", "compatibility"}
    name, description = fields["name"], fields["description"]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert len(name) <= 64
    assert 1 <= len(description.strip()) <= 1024
    assert "<" not in description
    assert ">" not in description
    assert all(isinstance(value, str) for value in fields["metadata"].values())
    return fields


skills = st.builds(
    _meta,
    id=st.uuids(version=4).map(str),
    name=_FILLED,
    description=_TEXT | st.just("<b>" * 500),
    author=_TEXT,
    source=_TEXT,
    purpose=_FOLDER,
    provider=_FOLDER,
    type=st.sampled_from(["skill", "agent"]),
    version=st.sampled_from(["v1", "v7"]),
)


@given(skills, _TEXT, st.lists(_FILLED, max_size=3, unique=True))
def test_a_skill_that_leaves_comes_back_as_it_was(meta: SkillMeta, content: str, tags: list[str]) -> None:
    raw = skill_md(meta, content, tags)
    _is_valid(raw)
    document = read_skill_md(raw, "SKILL.md", "some-folder")
    assert document.body == content
    assert stated(document) == Stated(
        meta.name,
        meta.description,
        meta.author,
        meta.source,
        meta.type,
        meta.id,
        meta.purpose,
        meta.provider,
        tuple(tags),
    )
    assert skill_md(meta, content, tags, document) == raw


@given(
    st.dictionaries(
        st.sampled_from(["name", "description", "license", "x", "metadata"]),
        _TEXT | st.integers(0, 9) | st.dictionaries(st.sampled_from(["author", "v"]), _TEXT, max_size=2),
    ),
    _TEXT.filter(str.strip),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff"]),
)
def test_a_file_of_others_leaves_byte_for_byte(
    fields: dict[str, Any], body: str, newline: str, mark: str
) -> None:
    head = dump_yaml(fields).replace("\n", newline)
    raw = f"{mark}---{newline}{head}---  {newline}{body}".encode()
    document = read_skill_md(raw, "SKILL.md", "folder")
    assert document.body == body
    meta, content = _come(stated(document), body)
    assert skill_md(meta, content, [], document) == raw


def test_the_body_begins_behind_the_newline_of_the_closing_line() -> None:
    document = _theirs()
    assert document.body == "\n# PDF\n\nDo it.\r\nNo newline at the end"
    said = stated(document)
    assert (said.name, said.description) == ("pdf-tools", "Works with PDF files. Use it often.")
    assert (said.skill_id, said.purpose, said.source) == (None, None, "pdf-tools")


def test_a_file_that_ends_with_its_front_matter_has_no_body() -> None:
    document = read_skill_md(b"---\nname: a\n---", "SKILL.md", "a")
    assert (document.head, document.body) == ("---\nname: a\n---", "")
    raw = skill_md(_meta(name="a", version="v2"), "New.", [], document)
    assert read_skill_md(raw, "SKILL.md", "a").body == "New."


def test_a_changed_content_leaves_the_front_matter_alone_but_for_who_it_is() -> None:
    document = _theirs()
    meta, _ = _come(stated(document), document.body, version="v2")
    raw = skill_md(meta, "Better.\n", [], document).decode()
    kept = document.head.removesuffix("---\n")
    assert raw.startswith(kept + "metadata:\n  personalab-id:")
    assert raw.endswith("---\nBetter.\n")
    again = stated(read_skill_md(raw.encode(), "SKILL.md", "elsewhere"))
    assert (again.name, again.skill_id, again.purpose) == ("pdf-tools", ID, "coding")


def test_a_changed_name_is_written_and_the_other_fields_stay() -> None:
    document = _theirs()
    meta, content = _come(stated(document), document.body, name="PDF 工具箱大全", version="v2")
    fields = _is_valid(skill_md(meta, content, [], document))
    assert (fields["name"], fields["license"]) == ("skill-2abeadd6", "MIT")
    assert fields["metadata"]["personalab-name"] == "PDF 工具箱大全"


def test_a_tag_is_a_change_that_leaves_with_the_skill() -> None:
    document = _theirs()
    meta, content = _come(stated(document), document.body)
    raw = skill_md(meta, content, ["Python", "代码"], document)
    assert stated(read_skill_md(raw, "SKILL.md", "x")).tags == ("Python", "代码")


def test_who_edits_the_file_by_hand_is_believed() -> None:
    raw = skill_md(_meta(name="代码助手", description="<fast>"), "Body", []).decode()
    assert "description: (fast)" in raw
    edited = raw.replace("description: (fast)", "description: slow").replace(
        "name: skill-2abeadd6", "name: helper", 1
    )
    said = stated(read_skill_md(edited.encode(), "SKILL.md", "x"))
    assert (said.name, said.description, said.skill_id) == ("helper", "slow", ID)


@pytest.mark.parametrize("given_id", ["../../etc", "7", "2abeadd6", "2abeadd6-a506-10ee-a0c7-23f42a98bda8"])
def test_an_id_that_is_none_is_not_taken(given_id: str) -> None:
    raw = f'---\nname: a\nmetadata:\n  personalab-id: "{given_id}"\n---\nBody'
    assert stated(read_skill_md(raw.encode(), "SKILL.md", "a")).skill_id is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My Skill", "my-skill"),
        ("already-fine", "already-fine"),
        ("Café Noir", "cafe-noir"),
        ("代码助手", "skill-2abeadd6"),
        ("通用代码生成助手B2", "skill-2abeadd6"),
        ("---", "skill-2abeadd6"),
        ("a" * 80, "a" * 64),
    ],
)
def test_a_name_becomes_one_that_the_format_takes(name: str, expected: str) -> None:
    assert kebab(name, ID) == expected


@given(_FILLED)
def test_every_name_becomes_a_valid_one(name: str) -> None:
    found = name_in_file(_meta(name=name, id=str(uuid.UUID(ID))), None)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", found)
    assert len(found) <= 64


def test_a_file_without_front_matter_is_all_content() -> None:
    document = read_skill_md(b"# Title\n", "SKILL.md", "folder")
    assert (document.body, stated(document).name) == ("# Title\n", "folder")
    renamed = skill_md(_meta(name="Other", version="v2", source="folder"), document.body, [], document)
    assert read_skill_md(renamed, "SKILL.md", "folder").body == "# Title\n"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"---\nname: a\n", "lab_front_open"),
        (b"---\n- a\n---\nBody", "lab_bad_record"),
        (b"---\nname: \xff\n---\n", "lab_not_utf8"),
        (b"---\nname: &a b\n---\nBody", "lab_yaml_anchor"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(raw: bytes, code: str) -> None:
    with pytest.raises(BadRecord) as raised:
        read_skill_md(raw, "SKILL.md", "folder")
    assert raised.value.code == code
    assert "SKILL.md" in str(raised.value)


@pytest.mark.parametrize("opening", ["---\n", "---\r\n", "\ufeff--- \n"])
def test_an_error_names_the_line_of_the_file(opening: str) -> None:
    for head, code in (("name: a\nb: *c\n", "lab_yaml_anchor"), ("name: a\nb: [\n", "lab_bad_yaml")):
        with pytest.raises(BadRecord) as raised:
            read_skill_md(f"{opening}{head}---\nBody".encode(), "SKILL.md", "folder")
        line = 3 if code == "lab_yaml_anchor" else 4
        assert (raised.value.code, raised.value.params["line"]) == (code, line)


def test_a_name_without_end_is_cut() -> None:
    raw = f"---\nname: {'x' * 5_000}\n---\nBody".encode()
    document = read_skill_md(raw, "SKILL.md", "folder")
    assert stated(document).name == "x" * 200
    assert skill_md(_meta(name="x" * 200, source="folder"), "Body", [], document) == raw
    ours = f"metadata:\n  personalab-id: {ID}\n  personalab-name: {'X' * 5_000}\n"
    long_name = f"---\nname: skill-{ID[:8]}\n{ours}---\nBody".encode()
    assert stated(read_skill_md(long_name, "SKILL.md", "folder")).name == "X" * 200
