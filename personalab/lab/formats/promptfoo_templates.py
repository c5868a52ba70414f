"""Template rendering for promptfoo's texts, and escaping of texts that are no templates.

Only what needs no program is rendered: ``{% raw %}`` blocks, quoted texts and the names of variables.
Anything else is left as it is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_RAW = re.compile(r"\{%-?\s*(?:end)?raw\s*-?%\}")
_END = re.compile(r"\{%-?\s*endraw\s*-?%\}")
_PART = re.compile(
    r"(?P<raw>\{%-?\s*raw\s*-?%\})"
    r"|\{\{-?\s*(?:'(?P<one>[^'\\]*)'|\"(?P<two>[^\"\\]*)\"|(?P<name>[^\W\d][\w.]*))\s*-?\}\}"
)


def raw(text: str) -> str:
    """Keep promptfoo from reading a text as a template; what would begin or end that is written as a quoted text."""
    if not _TEMPLATE.search(text):
        return text
    apart = _RAW.sub(lambda found: f"{{% endraw %}}{{{{ '{found[0]}' }}}}{{% raw %}}", text)
    return f"{{% raw %}}{apart}{{% endraw %}}"


def filled(text: str, given: Mapping[str, Any]) -> str:
    """Fill in a text; a name that is not given stays as it is written."""
    parts: list[str] = []
    at = 0
    while (found := _PART.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        at = found.end()
        if found["raw"] is None:
            parts.append(_said(found, given))
            continue
        end = _END.search(text, at)
        if end is None:
            at = found.start()
            break
        parts.append(text[at : end.start()])
        at = end.end()
    return "".join(parts) + text[at:]


def all_filled(value: object, given: Mapping[str, Any]) -> object:
    """Fill in every text of a value."""
    if isinstance(value, str):
        return filled(value, given)
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {key: all_filled(found, given) for key, found in named.items()}
    if isinstance(value, list):
        return [all_filled(found, given) for found in cast("list[object]", value)]
    return value


def filled_vars(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in variables that name one another, one step deep."""
    plain = {name: all_filled(value, {}) for name, value in given.items()}
    return {
        name: all_filled(value, {key: found for key, found in plain.items() if key != name})
        for name, value in given.items()
    }


def as_text(value: object) -> str:
    """Return a variable's value as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _said(found: re.Match[str], given: Mapping[str, Any]) -> str:
    quoted = found["one"] if found["one"] is not None else found["two"]
    if quoted is not None:
        return quoted
    value: object = given
    for step in found["name"].split("."):
        if not isinstance(value, Mapping) or step not in value:
            return found[0]
        value = cast("Mapping[str, object]", value)[step]
    return as_text(value)
