"""How do skills and a baseline leave as a promptfoo configuration?

Each skill is a chat prompt with its content as the system's words, and a provider of its own that answers that prompt
alone; the six dimensions are six rubrics with their maxima as weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from personalab.lab.assets import Case, SkillMeta
from personalab.lab.dimensions import DIMENSIONS, MAXIMA
from personalab.lab.formats.yaml_text import dump_yaml
from personalab.lab.records import asset_folder
from personalab.texts import Language, say

CONFIG = "promptfooconfig.yaml"
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_END = re.compile(r"\{%-?\s*endraw\s*-?%\}")


def promptfoo_config(
    name: str,
    skills: Sequence[tuple[SkillMeta, str]],
    cases: Sequence[Case],
    *,
    model: str,
    language: Language,
) -> dict[str, bytes]:
    """Write a configuration and its prompts, by their relative names; ``model`` is promptfoo's id of a provider."""
    files: dict[str, bytes] = {}
    prompts: list[dict[str, str]] = []
    providers: list[dict[str, object]] = []
    for meta, content in skills:
        label = f"{meta.name} {meta.version} ({meta.id[:8]})"
        path = f"prompts/{asset_folder('skill', meta.id, meta.version)}.json"
        chat = [{"role": "system", "content": _raw(content)}, {"role": "user", "content": "{{input}}"}]
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


def _test(case: Case, language: Language) -> dict[str, object]:
    rubrics = [
        {
            "type": "llm-rubric",
            "metric": dimension,
            "weight": MAXIMA[dimension],
            "value": _raw(say(f"lab_rubric_{dimension}", language, expected=case.expected_output)),
        }
        for dimension in DIMENSIONS
    ]
    return {
        "description": case.name,
        "metadata": {"case_id": case.id, "category": case.category},
        "vars": {"input": _raw(case.input)},
        "assert": rubrics,
    }


def _raw(text: str) -> str:
    """Keep promptfoo from reading a text as a template; what would end that is taken apart."""
    if not _TEMPLATE.search(text):
        return text
    apart = _END.sub(lambda found: found[0].replace("{%", "{ %"), text)
    return f"{{% raw %}}{apart}{{% endraw %}}"
