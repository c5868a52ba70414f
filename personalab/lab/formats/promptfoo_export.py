"""Export of skills and a baseline as a promptfoo configuration.

Each skill becomes a chat prompt with its content as the system message, and a provider of its own that
answers only that prompt; the six dimensions become six rubrics with their maxima as weights. What a test has
no field for is stored in its metadata, so that an exported configuration can be imported again without loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from personalab.lab.assets import Case, SkillMeta
from personalab.lab.dimensions import DIMENSIONS, MAXIMA
from personalab.lab.formats.promptfoo_templates import raw
from personalab.lab.formats.yaml_text import dump_yaml
from personalab.lab.records import asset_folder
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage, say

CONFIG = "promptfooconfig.yaml"
_PROMPT_FILE = re.compile(r"prompts/skill_([0-9a-f]{8})_(v\d{1,9})\.json", re.ASCII)


def promptfoo_config(
    name: str,
    skills: Sequence[tuple[SkillMeta, str]],
    cases: Sequence[Case],
    *,
    model: str,
    language: PromptLanguage,
) -> dict[str, bytes]:
    """Write a configuration and its prompts, by their relative names; ``model`` is promptfoo's id of a provider."""
    files: dict[str, bytes] = {}
    prompts: list[dict[str, str]] = []
    providers: list[dict[str, object]] = []
    for meta, content in skills:
        label = f"{meta.name} {meta.version} ({meta.id[:8]})"
        path = f"prompts/{asset_folder('skill', meta.id, meta.version)}.json"
        chat = [{"role": "system", "content": raw(content)}, {"role": "user", "content": "{{input}}"}]
        files[path] = (json.dumps(chat, ensure_ascii=False, indent=2) + "\n").encode("utf-8")
        prompts.append({"id": f"file://{path}", "label": label})
        providers.append({"id": model, "label": label, "prompts": [label]})
    config = {
        "description": name,
        "prompts": prompts,
        "providers": providers,
        "tests": [_test(case, language) for case in cases],
    }
    return {CONFIG: dump_yaml(config).encode("utf-8"), **files}


def _test(case: Case, language: PromptLanguage) -> dict[str, object]:
    rubrics = [
        {
            "type": "llm-rubric",
            "metric": dimension,
            "weight": MAXIMA[dimension],
            "value": rubric(dimension, case.expected_output, language),
        }
        for dimension in DIMENSIONS
    ]
    return {
        "description": case.name,
        "metadata": {
            "case_id": case.id,
            "category": case.category,
            "expected_output": case.expected_output,
            "description": case.description,
        },
        "vars": {"input": raw(case.input)},
        "assert": rubrics,
    }


def rubric(dimension: str, expected: str, language: PromptLanguage) -> str:
    """Word what one dimension asks of an answer."""
    return raw(say(f"lab_rubric_{dimension}", language, expected=expected))


def is_own_rubric(row: Mapping[str, Any], expected: str) -> bool:
    """Return whether an assertion was written here for an expectation, and is unchanged."""
    if row.get("type") != "llm-rubric":
        return False
    named = [dimension for dimension in DIMENSIONS if dimension == row.get("metric")]
    own = [rubric(dimension, expected, language) for dimension in named for language in PROMPT_LANGUAGES]
    return row.get("value") in own


def own_name(label: str, path: str) -> str:
    """Take from a label what tells prompts apart in promptfoo, if it was put there here."""
    found = _PROMPT_FILE.fullmatch(path)
    return label.removesuffix(f" {found[2]} ({found[1]})") if found else label
