"""Safe reading of untrusted YAML and JSON, and writing of YAML.

Only what JSON can express is accepted from YAML: no anchors, tags, merges or duplicate keys; ``yes``, ``on``
and dates are read as text. The value that is read is therefore what a person sees in the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, cast

import yaml
from yaml.parser import ParserError
from yaml.reader import ReaderError
from yaml.scanner import ScannerError

from personalab.errors import BadRecord, Because, Invalid, Reason, json_reason

MAX_YAML_BYTES = 1024 * 1024
MAX_JSON_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 20
_BOM = "\ufeff"
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}|[0-9]{1,40}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?", re.ASCII
)
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]*")
"""What a plain YAML text may be made of; anything else is written in quotes, with escapes."""


def decode_utf8(raw: bytes, file: str, limit: int) -> str:
    """Read UTF-8 that is no longer than the limit; a byte order mark stays in the text."""
    if len(raw) > limit:
        raise BadRecord("lab_file_large", file=file, actual=len(raw), limit=limit)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecord("lab_not_utf8", file=file, place=error.start) from error


# --- YAML


def load_yaml(text: str, file: str) -> object:
    """Read one YAML document as JSON's kinds of values; ``file`` is how an error names it."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_YAML_BYTES:
        raise BadRecord("lab_file_large", file=file, actual=size, limit=MAX_YAML_BYTES)
    try:
        return _built(_events(text), file)
    except yaml.YAMLError as error:
        raise BadRecord("lab_bad_yaml", file=file, line=_line(error), reason=_problem(error)) from error


def _events(text: str) -> Iterator[yaml.Event]:
    return cast("Iterator[yaml.Event]", yaml.parse(text.removeprefix(_BOM), Loader=yaml.SafeLoader))


def _built(events: Iterator[yaml.Event], file: str) -> object:
    """Build the value event by event, so that a refused file is left before it has grown."""
    documents = 0
    value: object = None
    open_parts: list[_Part] = []
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise BadRecord("lab_yaml_several", file=file, line=_line_of(event))
        _refuse_magic(event, file)
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            open_parts.append(_Part(isinstance(event, yaml.MappingStartEvent)))
            if len(open_parts) > MAX_DEPTH:
                raise BadRecord("lab_too_deep", file=file, limit=MAX_DEPTH)
            continue
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done: object = open_parts.pop().value
        elif isinstance(event, yaml.ScalarEvent):
            done = _Scalar(event.value, is_plain=not event.style)
            _check_unicode(event.value, file)
        else:
            continue
        if open_parts:
            open_parts[-1].take(done, file, _line_of(event))
        else:
            value = _resolved(done)
    return value


class _Scalar:
    """A single value as it is written."""

    def __init__(self, text: str, *, is_plain: bool) -> None:
        self.text = text
        self.is_plain = is_plain


class _Part:
    """A mapping or a list that is being read."""

    def __init__(self, is_mapping: bool) -> None:
        self.value: dict[str, object] | list[object] = {} if is_mapping else []
        self._key: str | None = None

    def take(self, found: object, file: str, line: int) -> None:
        """Add what was read: a list's next value, or a mapping's key and then its value."""
        if isinstance(self.value, list):
            self.value.append(_resolved(found))
        elif self._key is not None:
            self.value[self._key], self._key = _resolved(found), None
        elif not isinstance(found, _Scalar):
            raise BadRecord("lab_yaml_key", file=file, line=line)
        elif found.text in self.value:
            raise BadRecord("lab_key_twice", file=file, key=found.text[:80])
        else:
            self._key = found.text


def _refuse_magic(event: yaml.Event, file: str) -> None:
    named = isinstance(event, yaml.NodeEvent) and event.anchor is not None
    if isinstance(event, yaml.AliasEvent) or named:
        raise BadRecord("lab_yaml_anchor", file=file, line=_line_of(event))
    if getattr(event, "tag", None) is not None:
        raise BadRecord("lab_yaml_tag", file=file, line=_line_of(event))
    is_merge = isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style
    if is_merge:
        raise BadRecord("lab_yaml_anchor", file=file, line=_line_of(event))


def _resolved(found: object) -> object:
    if not isinstance(found, _Scalar):
        return found
    text = found.text
    if not found.is_plain:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _line_of(event: yaml.Event) -> int:
    mark = cast("yaml.Mark | None", event.start_mark)
    return mark.line + 1 if mark is not None else 0


def _line(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if isinstance(mark, yaml.Mark) else 0


def _problem(error: yaml.YAMLError) -> Because:
    found = getattr(error, "problem", None) or getattr(error, "reason", None)
    text = str(found or type(error).__name__)[:200]
    code = next((code for kind, code in _KINDS.items() if isinstance(error, kind)), None)
    return Reason(code, text=text) if code else text


_KINDS: dict[type[yaml.YAMLError], str] = {
    ScannerError: "yaml_scanner",
    ParserError: "yaml_parser",
    ReaderError: "yaml_reader",
}


class _Dumper(yaml.SafeDumper):
    """Write values that other readers of YAML, older ones too, take for what they are."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write a value that occurs in two places twice, without an alias."""
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_itself = _PLAIN.fullmatch(value) and _resolved(_Scalar(value, is_plain=True)) == value
    style = None if is_itself else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(value: object) -> str:
    """Write a value as YAML, keys in their order, each text on one line."""
    written: Any = yaml.dump(
        value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=math.inf, default_flow_style=False
    )
    return str(written)


# --- JSON


def load_json(raw: bytes, file: str, limit: int = MAX_JSON_BYTES) -> object:
    """Read JSON in UTF-8, with or without a byte order mark."""
    text = decode_utf8(raw, file, limit).removeprefix(_BOM)

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in found if keys.count(key) > 1)
            raise BadRecord("lab_key_twice", file=file, key=twice[:80])
        return found

    try:
        value: object = json.loads(text, object_pairs_hook=once, parse_constant=_refuse, parse_float=_finite)
    except BadRecord:
        raise
    except RecursionError as error:
        raise BadRecord("lab_too_deep", file=file, limit=MAX_DEPTH) from error
    except ValueError as error:
        raise BadRecord("lab_bad_json", file=file, reason=json_reason(error)) from error
    _check_depth(value, file)
    if "\\ud" in text.lower():
        _check_unicode(json.dumps(value, ensure_ascii=False), file)
    return value


def _check_unicode(text: str, file: str) -> None:
    """Refuse half a pair, which an escape can say and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadRecord("lab_half_character", file=file) from error


def _refuse(word: str) -> NoReturn:
    raise Invalid("not_json_number", word=word)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits[:40])


def _check_depth(value: object, file: str) -> None:
    layer: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        layer = [part for found in layer for part in _parts(found)]
        if not layer:
            return
    raise BadRecord("lab_too_deep", file=file, limit=MAX_DEPTH)


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def object_in(value: object, file: str, field: str) -> dict[str, Any]:
    """Take a value as an object, or say which field of which file is none."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise BadRecord("lab_bad_record", file=file, field=field, reason=Reason("not_object"))


def list_in(value: object, file: str, field: str) -> list[Any]:
    """Take a value as a list."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    raise BadRecord("lab_bad_record", file=file, field=field, reason=Reason("not_list"))


def text_in(value: object, file: str, field: str) -> str:
    """Take a value as a text."""
    if isinstance(value, str):
        return value
    raise BadRecord("lab_bad_record", file=file, field=field, reason=Reason("not_text"))
