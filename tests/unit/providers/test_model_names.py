"""Tests of model names: which model each opens, and the errors for unknown ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from personalab.errors import ProviderError
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings, ReasoningEffort
from tests.support.providers.asking import ask

SETTINGS = ModelSettings(rehearsal_delay=0)


def refusal(name: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        open_model(name, settings=SETTINGS)
    return caught.value


def test_rehearsal_is_always_there() -> None:
    model = open_model("rehearsal", settings=SETTINGS)
    assert model.name == "rehearsal"
    assert ask(model).text


def test_a_script_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(["Hello there"]), encoding="utf-8")
    model = open_model(f"scripted:{path}", settings=SETTINGS)
    assert model.name == f"scripted:{path}"
    assert ask(model).text == "Hello there"


def test_an_openai_model_keeps_its_whole_name() -> None:
    model = open_model("openai:org/model:latest", settings=ModelSettings(base_url="http://127.0.0.1:1/v1"))
    assert model.name == "openai:org/model:latest"


def test_openai_without_a_key_says_which_variable_to_set() -> None:
    error = refusal("openai:gpt-4o-mini")
    assert error.code == "provider.no_key"
    assert "OPENAI_API_KEY" in str(error)


def test_a_provider_whose_package_is_missing_names_the_package() -> None:
    error = refusal("anthropic:claude-x")
    assert error.code == "provider.not_installed"
    assert error.params["package"] == "langchain-anthropic"


@pytest.mark.parametrize(
    ("provider", "effort", "options"),
    [
        ("ollama", None, {}),
        ("ollama", "off", {"reasoning": False}),
        ("ollama", "low", {"reasoning": True}),
        ("anthropic", None, {}),
        ("anthropic", "off", {"thinking": {"type": "disabled"}}),
        ("anthropic", "high", {"effort": "high"}),
        ("mistralai", "high", {}),
    ],
)
def test_effort_has_the_name_that_a_providers_package_gives_it(
    monkeypatch: pytest.MonkeyPatch, provider: str, effort: ReasoningEffort | None, options: dict[str, object]
) -> None:
    given: dict[str, object] = {}

    def init_chat_model(model: str, *, model_provider: str, **rest: object) -> object:
        given.update(rest)
        return object()

    monkeypatch.setattr("langchain.chat_models.init_chat_model", init_chat_model)
    open_model(f"{provider}:some-model", settings=ModelSettings(reasoning=effort))
    assert given == options


@pytest.mark.parametrize("name", ["", "gpt-4o", "openai:", ":x", "nobody:knows", "rehearsal:x"])
def test_an_unknown_name_is_refused(name: str) -> None:
    assert refusal(name).code == "provider.unknown"


def test_opening_models_imports_no_heavy_library() -> None:
    program = """
import sys
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.providers.model_settings import ReasoningEffort
from personalab.providers.tokens import OfflineCounter
open_model("rehearsal", settings=ModelSettings())
open_model("openai:x", settings=ModelSettings(api_key="k"))
OfflineCounter()
heavy = {"openai", "httpx", "langchain", "langchain_core", "langchain_openai", "langgraph", "tiktoken"}
print(sorted((heavy | {"xllamacpp"}) & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
