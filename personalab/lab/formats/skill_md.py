"""Conversion between text files (SKILL.md, plain text, Markdown) and skills."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from personalab.errors import BadRecord
from personalab.lab.assets import SkillMeta, SkillType
from personalab.lab.formats.yaml_text import decode_utf8, dump_yaml, load_yaml, object_in
from personalab.lab.records import SHORT, is_uuid4

PURPOSE = "persona"
PROVIDER = "personalab"


def source_of(character_id: str) -> str:
    """Name the character in a skill's ``source``."""
    return f"character:{character_id}"


MAX_PLAIN_BYTES = 1024 * 1024
_HEADING = re.compile(r"^#{1,6}[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Plain:
    """A prompt and what it is called."""

    name: str
    content: str


def read_plain(raw: bytes, file: str) -> Plain:
    """Take the whole file as the prompt; Markdown is called by its first heading, anything else by its file."""
    content = decode_utf8(raw, file, MAX_PLAIN_BYTES)
    if not content.strip("\ufeff \t\r\n"):
        raise BadRecord("lab_file_blank", file=file)
    return Plain(name_of(content, file), content)


def name_of(content: str, file: str) -> str:
    """Call a prompt by its first heading, or else by the name of its file."""
    path = PurePath(file)
    heading = _HEADING.search(content) if path.suffix.lower() in (".md", ".markdown") else None
    found = " ".join(heading[1].split()) if heading else ""
    return (found or path.stem or file)[:LONGEST_NAME]


MAX_BYTES = 2 * 1024 * 1024
"""A front matter and a content of 1 MiB each."""
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_TAGS = 100
_MARK = "personalab-"
_OPEN = re.compile(r"\ufeff?---[ \t]*(\r?\n)")
_CLOSE = re.compile(r"^---[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_KEBAB = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_APART = re.compile(r"[^a-z0-9]+")
_BRACKETS = str.maketrans({"<": "(", ">": ")"})


@dataclass(frozen=True, slots=True)
class SkillMd:
    """A SKILL.md that was read; ``head + body`` is the file."""

    head: str
    fields: Mapping[str, Any]
    body: str
    called: str
    """The name of its folder."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What a SKILL.md states about its skill; ``None`` is left to the importer."""

    name: str
    description: str
    author: str
    source: str
    type: SkillType = "skill"
    skill_id: str | None = None
    purpose: str | None = None
    provider: str | None = None
    tags: tuple[str, ...] = ()


# --- reading


def read_skill_md(raw: bytes, file: str, called: str) -> SkillMd:
    """Cut a file into head and body; one without front matter is all body."""
    text = decode_utf8(raw, file, MAX_BYTES)
    opened = _OPEN.match(text)
    if opened is None:
        return SkillMd("", {}, text, called)
    closed = _CLOSE.search(text, opened.end())
    if closed is None:
        raise BadRecord("lab_front_open", file=file)
    # The newline of the opening line goes with it, so that an error names the line of the file.
    value = load_yaml(text[opened.start(1) : closed.start()], file)
    fields = {} if value is None else object_in(value, file, "front matter")
    return SkillMd(text[: closed.end()], fields, text[closed.end() :], called)


def stated(document: SkillMd) -> Stated:
    """Return what a document states about its skill."""
    fields, ours = document.fields, _metadata(document.fields)
    name, description = _scalar(fields.get("name")).strip(), _scalar(fields.get("description")).strip()
    given = ours.get(f"{_MARK}id", "")
    skill_id = given if is_uuid4(given) else None
    own_name, own_description = ours.get(f"{_MARK}name", ""), ours.get(f"{_MARK}description")
    if own_name.strip() and name == kebab(own_name, given):
        name = own_name
    if own_description is not None and description == _written(own_description, name):
        description = own_description
    return Stated(
        name=name[:LONGEST_NAME] if name.strip() else document.called,
        description=description,
        author=ours.get("author", ""),
        source=ours.get(f"{_MARK}source", "" if skill_id else document.called),
        type="agent" if ours.get(f"{_MARK}type") == "agent" else "skill",
        skill_id=skill_id,
        purpose=ours.get(f"{_MARK}purpose"),
        provider=ours.get(f"{_MARK}provider"),
        tags=_tags(ours.get(f"{_MARK}tags", "")),
    )


def _metadata(fields: Mapping[str, Any]) -> dict[str, str]:
    found = fields.get("metadata")
    given = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    return {key: _scalar(value) for key, value in given.items() if isinstance(value, str | int | float)}


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else ""


def _tags(text: str) -> tuple[str, ...]:
    try:
        found: object = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return ()
    if not isinstance(found, list):
        return ()
    tags = [tag for tag in cast("list[object]", found) if isinstance(tag, str) and tag.strip()]
    return tuple(dict.fromkeys(tags))[:MAX_TAGS]


_OURS_ALONE = re.compile(rf"^[ \t]+{_MARK}(?:tags|version):.*\r?\n", re.MULTILINE)


def has_same_head(one: SkillMd, other: SkillMd) -> bool:
    """Return whether two front matters are identical except for their tags and version."""
    return _OURS_ALONE.sub("", one.head) == _OURS_ALONE.sub("", other.head)


# --- names


def kebab(name: str, skill_id: str) -> str:
    """Make the name that the format requires; one without Latin letters is made from the skill's id."""
    if len(name) <= MAX_NAME and _KEBAB.fullmatch(name):
        return name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    found = _APART.sub("-", plain.replace("'", "")).strip("-")[:MAX_NAME].strip("-")
    # A name that is mostly left out, like 代码助手B, could not be told apart from others.
    is_telling = len(found) > 1 and len(found) * 2 >= len(name.strip())
    return found if is_telling else f"skill-{skill_id[:SHORT]}"


def name_in_file(meta: SkillMeta, original: SkillMd | None) -> str:
    """Return the name for a skill's SKILL.md and its folder; an imported name is kept while it fits."""
    if original is not None:
        given = _scalar(original.fields.get("name")).strip()
        is_valid = len(given) <= MAX_NAME and _KEBAB.fullmatch(given)
        if is_valid and stated(original).name == meta.name:
            return given
    return kebab(meta.name, meta.id)


def _written(description: str, name: str) -> str:
    """Make the description that the format asks for: some text, not too long, without angle brackets."""
    return (description.translate(_BRACKETS).strip() or name.translate(_BRACKETS))[:MAX_DESCRIPTION].strip()


# --- writing


def skill_md(meta: SkillMeta, content: str, tags: Sequence[str], original: SkillMd | None = None) -> bytes:
    """Write a skill as its SKILL.md; of the one it came from, everything stays that did not change here."""
    if original is not None and is_untouched(meta, content, tags, original):
        return (original.head + original.body).encode("utf-8")
    fields = _fields(meta, tags, original)
    head = _patched(original, fields) if original is not None else None
    return ((head or f"---\n{dump_yaml(fields)}---\n") + content).encode("utf-8")


def is_untouched(meta: SkillMeta, content: str, tags: Sequence[str], original: SkillMd) -> bool:
    """Return whether a skill still equals its original.

    One that names no purpose and provider says nothing of them, so there any edit counts as a change.
    """
    said = stated(original)
    own = (said.name, said.description, said.author, said.type, original.body, tuple(said.tags))
    now = (meta.name, meta.description, meta.author, meta.type, content, tuple(dict.fromkeys(tags)))
    if own != now:
        return False
    if said.skill_id is None:
        return meta.version == "v1"
    placed = (said.skill_id, said.purpose, said.provider, said.source)
    return placed == (meta.id, meta.purpose, meta.provider, meta.source)


def _fields(meta: SkillMeta, tags: Sequence[str], original: SkillMd | None) -> dict[str, Any]:
    before = dict(original.fields) if original is not None else {}
    name = name_in_file(meta, original)
    description = _described(meta, before)
    given = before.get("metadata")
    metadata = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    metadata = {key: value for key, value in metadata.items() if not key.startswith(_MARK)}
    if meta.author or "author" in metadata:
        metadata["author"] = meta.author
    metadata |= {f"{_MARK}id": meta.id}
    if name != meta.name:
        metadata[f"{_MARK}name"] = meta.name
    if description.strip() != meta.description:
        metadata[f"{_MARK}description"] = meta.description
    metadata |= {
        f"{_MARK}purpose": meta.purpose,
        f"{_MARK}provider": meta.provider,
        f"{_MARK}version": meta.version,
    }
    if meta.type != "skill":
        metadata[f"{_MARK}type"] = meta.type
    if meta.source:
        metadata[f"{_MARK}source"] = meta.source
    if tags:
        metadata[f"{_MARK}tags"] = json.dumps(list(dict.fromkeys(tags)), ensure_ascii=False)
    return {**before, "name": name, "description": description, "metadata": metadata}


def _described(meta: SkillMeta, before: Mapping[str, Any]) -> str:
    """Keep an unchanged description as it is, even one that the format would refuse."""
    given = before.get("description")
    if isinstance(given, str) and meta.description and given.strip() == meta.description:
        return given
    return _written(meta.description, meta.name)


def _patched(original: SkillMd, fields: Mapping[str, Any]) -> str | None:
    """Add only the metadata to a head that has none, so that a person sees nothing else changed."""
    unchanged = {key: value for key, value in fields.items() if key != "metadata"}
    if not original.head or dict(original.fields) != unchanged:
        return None
    closed = list(_CLOSE.finditer(original.head))[-1]
    broken = "\r\n" if original.head[: closed.start()].endswith("\r\n") else "\n"
    added = dump_yaml({"metadata": fields["metadata"]}).replace("\n", broken)
    end = original.head[closed.start() :]
    head = original.head[: closed.start()] + added + (end if end.endswith("\n") else end + broken)
    try:
        again = read_skill_md(head.encode("utf-8"), "SKILL.md", original.called)
    except BadRecord:
        return None
    return head if again.head == head and dict(again.fields) == dict(fields) else None
