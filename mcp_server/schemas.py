"""JSON schemas of tools, kept short: every host pays for them in every conversation.

Some frameworks mark every argument as required, so the model has to send something for each: the default that the
schema names, or ``null``. Whatever the schema says, ``null`` and ``""`` mean that an optional argument was left out.
"""

from __future__ import annotations

from typing import Any, cast

from pydantic import WithJsonSchema

_LIMITS = ("maxLength", "maxItems")
_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def object_schema(*required: str, **rules: type | tuple[str, ...] | dict[str, Any]) -> WithJsonSchema:
    """Describe an object by its fields: plain types, tuples of allowed words, or schemas."""
    described: dict[str, Any] = {}
    for name, rule in rules.items():
        if isinstance(rule, tuple):
            described[name] = {"enum": list(rule), "type": "string"}
        else:
            described[name] = rule if isinstance(rule, dict) else {"type": _TYPES[rule]}
    needed = {"required": list(required)} if required else {}
    return WithJsonSchema({"properties": described, **needed, "type": "object"})


def brief(schema: Any) -> Any:
    """Drop what a schema says twice or for nothing.

    Made-up titles, our types' docstrings, what is allowed anyway, and limits no model comes near.
    """
    if isinstance(schema, list):
        return [brief(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    known = cast("dict[str, Any]", schema)
    dropped = {"title", "description"} if "properties" in known else {"title"}
    kept: dict[str, Any] = {}
    for name, part in known.items():
        if name == "properties":
            kept[name] = {field: brief(rule) for field, rule in part.items()}
        elif name not in dropped and (name, part) != ("additionalProperties", True) and name not in _LIMITS:
            kept[name] = brief(part)
    return kept


def brief_result(schema: dict[str, Any]) -> dict[str, Any]:
    """Shorten the schema of a tool's result: without descriptions, and without the fields of nested objects."""
    short = brief(schema)
    described = {name: _result_field(rule) for name, rule in short["properties"].items()}
    rest = {name: part for name, part in short.items() if name != "$defs"}
    return {**rest, "properties": described}


def _result_field(rule: Any) -> Any:
    if isinstance(rule, list):
        return [_result_field(part) for part in cast("list[Any]", rule)]
    if not isinstance(rule, dict):
        return rule
    known = cast("dict[str, Any]", rule)
    if "$ref" in known:
        return {"type": "object"}
    return {name: _result_field(part) for name, part in known.items() if name != "description"}


def brief_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Shorten the schema of a tool's arguments; null stays allowed where there is no default to send instead.

    The form is the one that every tried framework reads. Semantic Kernel cannot read a list of types, smolagents takes
    whatever has no single type for a text (so what has a default keeps its own), and google-genai cannot read
    ``"additionalProperties": false``; the server refuses other arguments all the same.
    """
    short = brief(schema)
    described = {name: _argument(rule) for name, rule in short["properties"].items()}
    rest = {name: part for name, part in short.items() if name != "additionalProperties"}
    return {**rest, "properties": described}


def _argument(rule: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" not in rule:
        return _with_nulls(rule)
    arms = [_with_nulls(arm) for arm in rule["anyOf"]]
    rest = {name: part for name, part in rule.items() if (name, part) != ("default", None)}
    return {**rest, "anyOf": arms}


def _with_nulls(rule: dict[str, Any]) -> dict[str, Any]:
    """Allow null for the optional fields of an object, at any depth."""
    if "items" in rule:
        return {**rule, "items": _with_nulls(rule["items"])}
    if "properties" not in rule:
        return rule
    needed = rule.get("required", [])
    described = {
        name: _with_nulls(part if name in needed else _or_null(part))
        for name, part in rule["properties"].items()
    }
    return {**rule, "properties": described}


def _or_null(rule: dict[str, Any]) -> dict[str, Any]:
    if "enum" in rule:  # Gemini takes no null among the words
        return {"anyOf": [rule, {"type": "null"}]}
    return {**rule, "type": [rule["type"], "null"]}


def without_blanks(value: Any, rule: dict[str, Any]) -> Any:
    """Drop optional fields that are null or an empty text, at any depth."""
    rule = next((arm for arm in rule.get("anyOf", []) if "items" in arm or "properties" in arm), rule)
    if isinstance(value, list) and "items" in rule:
        return [without_blanks(part, rule["items"]) for part in cast("list[Any]", value)]
    if not isinstance(value, dict) or "properties" not in rule:
        return cast("Any", value)
    rules, needed = rule["properties"], rule.get("required", [])
    given = cast("dict[str, Any]", value)
    return {
        name: without_blanks(part, rules.get(name, {}))
        for name, part in given.items()
        if name in needed or name not in rules or not (part is None or part == "")
    }
