"""A promptfoo configuration becomes skills and cases, and nothing in it is run."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from personalab.errors import BadRecord, PersonaLabError, UserError
from personalab.lab.assets import Case, SkillMeta
from personalab.lab.formats import format_of_file
from personalab.lab.formats.promptfoo import (
    CONFIG,
    Suite,
    escape_template,
    promptfoo_config,
    read_promptfoo,
    render_template,
)
from personalab.lab.formats.skill_md import read_plain
from personalab.texts import languages

NOW = "2025-10-16T10:30:00Z"
CONFIG_TEXT = """
description: Translation
prompts:
  - 'Translate to French: {{text}}'
  - file://prompts/two.txt
  - id: file://chat.json
    label: Chatty
  - prompts/plain.md
providers: [openai:gpt-4o-mini]
defaultTest:
  assert:
    - type: latency
      threshold: 2000
    - type: not-icontains
      value: as an AI
tests:
  - description: A greeting
    vars: {text: Good morning}
    assert:
      - {type: contains, value: Bonjour}
      - type: llm-rubric
        value: Sounds natural
      - type: javascript
        value: output.length < 100 && process.exit(1)
  - description: boundary - nothing
    vars: {text: '""', tone: 3}
  - vars:
      text: [one, two]
    metadata: {category: exception}
    assert:
      - type: assert-set
        assert:
          - {type: equals, value: {a: 1}}
          - {type: rouge-n, value: x, threshold: 0.5}
"""
FILES = {
    "prompts/two.txt": "First of two\n---\nSecond of two\n",
    "chat.json": json.dumps(
        [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "{{text}}"}]
    ),
    "prompts/plain.md": "# The plain one\n\nTranslate.",
}

_PIECES = ("{% raw %}", "{% endraw %}", "{%- endraw -%}", "{{x}}", "{{ '", "' }}", "{", "%}", "{%", "{#")


def _read(text: str, name: str = "promptfooconfig.yaml", files: dict[str, str] | None = None) -> Suite:
    there = FILES if files is None else files

    def read(path: str) -> bytes:
        if path not in there:
            raise UserError("lab_nothing_there", file=path)
        return there[path].encode()

    return read_promptfoo(text.encode(), name, read, NOW)


def test_each_prompt_is_a_skill() -> None:
    suite = _read(CONFIG_TEXT)
    assert suite.name == "Translation"
    assert [(prompt.name, prompt.content) for prompt in suite.prompts] == [
        ("Translate to French: {{text}}", "Translate to French: {{text}}"),
        ("two", "First of two"),
        ("two (2)", "Second of two"),
        ("Chatty", "You are terse."),
        ("The plain one", "# The plain one\n\nTranslate."),
    ]


def test_each_test_is_a_case_with_its_assertions_in_words() -> None:
    cases = _read(CONFIG_TEXT).cases
    assert [(case.id, case.name, case.category, case.input) for case in cases] == [
        ("case_001", "A greeting", "standard", "Good morning"),
        ("case_002", "boundary - nothing", "boundary", 'text: ""\ntone: 3'),
        ("case_003", "one", "exception", "one"),
        ("case_004", "two", "exception", "two"),
    ]
    assert cases[0].expected_output == (
        "- The answer contains: Bonjour\n"
        "- Sounds natural\n"
        "- The answer passes this javascript check (quoted here, never run): output.length < 100 && process.exit(1)\n"
        "- This must not hold: The answer contains, in upper or lower case: as an AI"
    )
    assert cases[2].expected_output.startswith(
        '- The answer equals: {"a": 1}\n- The answer satisfies rouge-n: x\n'
    )


def test_a_chinese_configuration_is_told_in_chinese() -> None:
    text = (
        "prompts: [请把下面的话翻译成法语]\n"
        "tests:\n"
        "  - vars: {话: 早上好呀朋友}\n"
        "    assert: [{type: contains, value: Bonjour}]\n"
        "  - vars: {话: 晚安好梦}\n"
    )
    first, second = _read(text).cases
    assert first.expected_output == "- 回答应包含：Bonjour"
    assert second.expected_output == "回答应完整满足请求"


def test_json_and_a_file_of_results_are_read_as_well() -> None:
    config = {"prompts": ["Say {{x}}"], "tests": [{"vars": {"x": "hello"}}]}
    plain = _read(json.dumps(config), "config.json")
    results = _read(json.dumps({"evalId": "e", "results": {"results": []}, "config": config}), "config.json")
    assert plain == results
    assert plain.name == "config"


def test_tests_and_variables_may_stand_in_files_beside_it() -> None:
    files = {
        "t.yaml": "- vars: {x: file://long.txt}\n",
        "long.txt": "a long text\n",
        "t.json": '[{"vars": {"x": "y"}}]',
    }
    suite = _read("prompts: [p]\ntests: file://t.yaml\n", files=files)
    assert [case.input for case in suite.cases] == ["a long text"]
    suite = _read("prompts: [p]\ntests: [t.json]\n", files=files)
    assert [case.input for case in suite.cases] == ["y"]


def test_tests_may_stand_in_a_table() -> None:
    table = (
        "\ufefftopic,__expected,__expected2,__description,__metadata:category\r\n"
        '"rain, snow",contains: wet,not-fn: exit(1),The weather,boundary\r\n'
        "\r\n"
        "sun,note: hot,,,\r\n"
    )
    cases = _read("prompts: [p]\ntests: file://t.csv\n", files={"t.csv": table}).cases
    assert [(case.name, case.category, case.input) for case in cases] == [
        ("The weather", "boundary", "rain, snow"),
        ("sun", "standard", "sun"),
    ]
    assert cases[0].expected_output == (
        "- The answer contains: wet\n"
        "- This must not hold: The answer passes this javascript check (quoted here, never run): exit(1)"
    )
    assert cases[1].expected_output == "- The answer equals: note: hot"


def test_a_prompt_without_variables_is_only_told_to_begin() -> None:
    (case,) = _read("prompts: [Write a poem about the sea and the wind]\ntests: [{assert: []}]\n").cases
    assert case.input == "Begin."


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tests: []\n", "lab_no_prompts"),
        ("prompts: []\n", "lab_no_prompts"),
        ("- prompts\n", "lab_bad_record"),
        ("prompts: [file://make.py]\n", "lab_is_code"),
        ("prompts: [file://make.js:build]\n", "lab_is_code"),
        ("prompts: ['exec:rm -rf x']\n", "lab_is_code"),
        ("prompts: [file://../secret.txt]\n", "lab_bad_reference"),
        ("prompts: [file:///etc/passwd]\n", "lab_bad_reference"),
        ("prompts: ['file://prompts/*.txt']\n", "lab_bad_reference"),
        ("prompts: [file://nowhere.txt]\n", "lab_nothing_there"),
        ("prompts: [p]\ntests: file://t.xlsx\n", "lab_bad_tests"),
        ("prompts: [p]\ntests: [{vars: {x: file://../a.txt}}]\n", "lab_bad_reference"),
        ("prompts: [p]\ntests: [{vars: {x: ' '}}]\n", "lab_blank_case"),
        ("prompts: [p]\ntests: [{vars: {x: y}, assert: [{value: z}]}]\n", "lab_bad_record"),
        ("prompts: [p]\ntests: [{vars: {x: y}, assert: all}]\n", "lab_bad_record"),
        ("prompts: [{label: x}]\n", "lab_bad_record"),
        ("prompts: &p [a]\n", "lab_yaml_anchor"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_its_place(text: str, code: str) -> None:
    with pytest.raises(PersonaLabError) as raised:
        _read(text)
    assert raised.value.code == code
    assert all(raised.value.message(language) for language in languages())


def test_lists_of_values_cannot_grow_without_end() -> None:
    lists = "\n".join(f"      v{number}: [{', '.join('abcdefghij')}]" for number in range(9))
    with pytest.raises(BadRecord) as raised:
        _read(f"prompts: [p]\ntests:\n  - vars:\n{lists}\n")
    assert raised.value.code == "lab_too_many_tests"


def test_what_all_tests_share_may_stand_in_a_file() -> None:
    files = {"dt.yaml": "assert: [{type: contains, value: MEOW}]\nvars: {tone: mild}\n"}
    text = "prompts: [p]\ndefaultTest: file://dt.yaml\ntests: [{vars: {topic: cats}}]\n"
    (case,) = _read(text, files=files).cases
    assert (case.input, case.expected_output) == ("tone: mild\ntopic: cats", "- The answer contains: MEOW")
    (case,) = _read("prompts: [p]\ndefaultTest: file://dt.yaml\n", files=files).cases
    assert case.input == "mild"


def test_a_scenario_is_each_of_its_tests_with_each_of_its_values() -> None:
    text = (
        "prompts: ['Hi {{x}}']\n"
        "tests: [{vars: {x: 0}}]\n"
        "scenarios:\n"
        "  - config: [{vars: {x: one}, metadata: {category: boundary}}, {vars: {x: two}}]\n"
        "    tests: [{assert: [{type: contains, value: 'Q {{x}}'}]}, {vars: {y: z}}]\n"
        "  - file://s.yaml\n"
    )
    files = {"s.yaml": "- config: [{vars: {x: three}}]\n"}
    cases = _read(text, files=files).cases
    assert [case.input for case in cases] == ["0", "one", "x: one\ny: z", "two", "x: two\ny: z", "three"]
    assert cases[1].expected_output == "- The answer contains: Q one"
    assert [case.category for case in cases][:4] == ["standard", "boundary", "boundary", "standard"]


def test_variables_are_filled_in_where_an_assertion_names_them() -> None:
    text = (
        "prompts: [p]\n"
        "tests:\n"
        "  - vars: {x: [a, b], y: {z: 3}, w: 'see {{ x }}'}\n"
        "    assert:\n"
        "      - {type: contains-all, value: ['{{x}}', '{{ y.z }}', '{{other}}']}\n"
        "      - {type: llm-rubric, value: '{% raw %}{{x}}{% endraw %} {{w}} {{ x | upper }}'}\n"
    )
    first, second = _read(text).cases
    assert first.input == 'x: a\ny: {"z": 3}\nw: see a'
    assert first.expected_output == (
        '- The answer contains each of: ["a", "3", "{{other}}"]\n- {{x}} see a {{ x | upper }}'
    )
    assert "see b" in second.expected_output


def test_an_assertion_may_be_defined_elsewhere_in_the_configuration() -> None:
    text = (
        "prompts: [p]\nassertionTemplates: {a: {type: contains, value: Z}}\n"
        "tests: [{vars: {x: y}, assert: [{$ref: '#/assertionTemplates/a'}]}]\n"
    )
    (case,) = _read(text).cases
    assert case.expected_output == "- The answer contains: Z"


def test_what_changes_the_measure_and_is_not_taken_over_is_told() -> None:
    assert _read("prompts: [p]\ntests: [{vars: {x: y}}]\n").description == ""
    text = (
        "prompts: [p]\n"
        "defaultTest: {threshold: 0.5, options: {transform: output.trim()}}\n"
        "tests:\n"
        "  - vars: {x: y}\n"
        "    options: {prefix: Be nice}\n"
        "    assert:\n"
        "      - {type: similar, value: z, threshold: 0.9, weight: 1}\n"
        "      - {type: assert-set, assert: [{type: contains, value: z, weight: 3}]}\n"
        "      - {type: latency, threshold: 10}\n"
    )
    told = _read(text).description
    names = (
        "tests.threshold, options.prefix, options.transform, assert.threshold, assert.weight, assert.latency"
    )
    assert f": {names};" in told
    assert (
        "threshold"
        in _read("prompts: [p]\ntests: t.csv\n", files={"t.csv": "x,__threshold\ny,0.3\n"}).description
    )


@given(st.lists(st.sampled_from([*_PIECES, "a", "\n", " "]), max_size=12).map("".join))
def test_a_text_that_is_kept_from_being_a_template_comes_back(text: str) -> None:
    assert render_template(escape_template(text), {"x": "1"}) == text


def test_a_template_without_end_is_read_in_time() -> None:
    for piece in ("{% raw %}", "{{ '", '{{ "', "{%  ", "{{x", "{{ x."):
        text = piece * 100_000
        assert len(render_template(text, {})) <= len(text)


def test_what_was_added_to_a_configuration_that_left_counts_too() -> None:
    files = promptfoo_config("B", [(_META, "c")], [_CASE], model="m", language="zh")
    config = yaml.safe_load(files[CONFIG])
    config["tests"][0]["assert"].append({"type": "contains", "value": "new"})
    there = {name: content.decode() for name, content in files.items()}
    suite = _read(yaml.safe_dump(config, allow_unicode=True), files=there)
    assert suite.cases[0].expected_output == "Right\n\n- The answer contains: new"
    assert (suite.prompts[0].name, suite.description) == ("A", "")
    config["tests"][0]["assert"][2]["value"] = "Reads like a song"
    assert "- Reads like a song\n" in _read(yaml.safe_dump(config), files=there).cases[0].expected_output


# --- out


_META = SkillMeta(
    id="2abeadd6-a506-40ee-a0c7-23f42a98bda8",
    name="A",
    purpose="p",
    provider="q",
    version="v2",
    status="active",
    created_at=NOW,
    updated_at=NOW,
)
_CASE = Case(
    id="case_001",
    name="One",
    category="boundary",
    input="Use {{braces}}",
    expected_output="Right",
    created_at=NOW,
    updated_at=NOW,
)


def test_skills_leave_as_providers_with_a_rubric_for_each_dimension() -> None:
    files = promptfoo_config("B", [(_META, "Be {{exact}}.")], [_CASE], model="openai:x", language="en")
    config = yaml.safe_load(files[CONFIG])
    (provider,) = config["providers"]
    assert provider == {"id": "openai:x", "label": "A v2 (2abeadd6)", "prompts": ["A v2 (2abeadd6)"]}
    path = config["prompts"][0]["id"].removeprefix("file://")
    system, user = json.loads(files[path])
    assert system == {"role": "system", "content": "{% raw %}Be {{exact}}.{% endraw %}"}
    assert user["content"] == "{{input}}"
    (test,) = config["tests"]
    assert test["vars"]["input"] == "{% raw %}Use {{braces}}{% endraw %}"
    assert [row["weight"] for row in test["assert"]] == [30, 20, 15, 15, 10, 10]
    assert all(row["value"] for row in test["assert"])


# --- plain words, and what a file is


def test_a_text_is_called_by_its_heading_or_its_file() -> None:
    assert read_plain(b"x\n## The  name ##\n", "a.md").name == "The name"
    assert read_plain(b"# no heading here\n", "a.txt").name == "a"
    assert read_plain("\ufeff你好\r\n".encode(), "b.txt").content == "\ufeff你好\r\n"
    with pytest.raises(BadRecord, match=r"a\.txt"):
        read_plain(b" \n", "a.txt")


def test_a_file_is_told_by_its_name() -> None:
    names = ("SKILL.md", "a.MD", "a.txt", "p.yml", "p.json")
    assert [format_of_file(name) for name in names] == [
        "skill_md",
        "plain",
        "plain",
        "promptfoo",
        "promptfoo",
    ]
    with pytest.raises(UserError, match=r"a\.docx"):
        format_of_file("a.docx")
