"""How short can a schema be? Every host pays for it, in every conversation."""

from __future__ import annotations

from typing import Any, cast


def brief(schema: Any) -> Any:
    """Drop what a schema says twice or for nothing: made-up titles, our types' docstrings, what is allowed anyway."""
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
        elif name not in dropped and (name, part) != ("additionalProperties", True):
            kept[name] = brief(part)
    return kept


def brief_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Shorten a tool's arguments, and close them; one that may be left out need not be offered as null, too."""
    short = brief(schema)
    needed = short.get("required", [])
    fields = {
        name: rule if name in needed else _without_null(rule) for name, rule in short["properties"].items()
    }
    return {**short, "properties": fields, "additionalProperties": False}


def _without_null(rule: dict[str, Any]) -> dict[str, Any]:
    arms = [arm for arm in rule.get("anyOf", []) if arm != {"type": "null"}]
    if len(arms) != 1 or rule.get("default", ...) is not None:
        return rule
    return {**arms[0], **{name: part for name, part in rule.items() if name not in ("anyOf", "default")}}
