"""With LangSmith's tracing switched on, no text leaves the machine unless someone asks for that."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from personalab.errors import UserError
from personalab.services import open_services, tracing_notice
from personalab.settings import read_settings
from tests.integration.providers.langsmith_server import LangSmithServer
from tests.support.openai_server import OpenAIServer, refuses, says

PROJECT = Path(__file__).parents[3]
WORDS = "the player's secret: 琥珀色的钥匙"
REPLY = "the reply's secret: 埋在梨树下"
PERSONA = "废土"


@pytest.fixture
def langsmith() -> Iterator[LangSmithServer]:
    """A server that takes traces."""
    with LangSmithServer() as server:
        yield server


def _traced(langsmith: LangSmithServer, root: Path, environment: dict[str, str]) -> str:
    """Play a turn that succeeds and one whose error quotes the prompt; give what was sent."""
    with OpenAIServer() as model:
        model.script(says(REPLY), refuses(400, {"message": f"cannot answer: {WORDS}", "code": None}))
        given = {
            "PERSONALAB_DATA": str(root),
            "PERSONALAB_MODEL": "openai:some-model",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": model.url,
            "LANGSMITH_ENDPOINT": langsmith.url,
            "LANGSMITH_API_KEY": "key",
            "PYTHONPATH": str(PROJECT),
            **environment,
        }
        command = [sys.executable, "-m", "tests.integration.providers.traced_turns", WORDS]
        done = subprocess.run(
            command, cwd=PROJECT, env=os.environ | given, capture_output=True, text=True, timeout=60
        )
    assert done.stdout.split() == ["done", "error"], done.stderr
    sent = b"\n".join(langsmith.bodies).decode("utf-8", errors="replace")
    return sent + json.dumps(sent.encode("ascii", "backslashreplace").decode())


def _secrets() -> list[str]:
    words = [*WORDS.split(": "), *REPLY.split(": "), PERSONA]
    return words + [json.dumps(word)[1:-1] for word in words]


@pytest.mark.parametrize(("switch", "mode"), [("LANGSMITH_TRACING", ""), ("LANGCHAIN_TRACING_V2", "hidden")])
def test_traces_have_no_texts_unless_someone_asks_for_them(
    langsmith: LangSmithServer, root: Path, switch: str, mode: str
) -> None:
    sent = _traced(langsmith, root, {switch: "true", "PERSONALAB_TRACING": mode})
    assert "stream_reply" in sent
    assert [secret for secret in _secrets() if secret in sent] == []


def test_traces_have_everything_when_someone_asks_for_it(langsmith: LangSmithServer, root: Path) -> None:
    sent = _traced(langsmith, root, {"LANGSMITH_TRACING": "true", "PERSONALAB_TRACING": "full"})
    assert all(word in sent for word in [*WORDS.split(": "), *REPLY.split(": "), PERSONA])


def test_traces_can_be_switched_off(langsmith: LangSmithServer, root: Path) -> None:
    _traced(langsmith, root, {"LANGSMITH_TRACING": "true", "PERSONALAB_TRACING": "off"})
    assert langsmith.bodies == []


# --- the setting


@pytest.mark.parametrize(
    ("environment", "tracing"),
    [
        ({}, None),
        ({"PERSONALAB_TRACING": "full"}, None),
        ({"LANGSMITH_TRACING": "false"}, None),
        ({"LANGSMITH_TRACING": ""}, None),
        ({"LANGSMITH_TRACING_V2": "false", "LANGSMITH_TRACING": "true"}, None),
        ({"LANGSMITH_TRACING": "true"}, "hidden"),
        ({"LANGCHAIN_TRACING_V2": "true", "PERSONALAB_TRACING": "off"}, "off"),
        ({"LANGSMITH_TRACING_V2": "true", "PERSONALAB_TRACING": "full"}, "full"),
    ],
)
def test_the_environment_says_what_is_traced(environment: dict[str, str], tracing: str | None) -> None:
    assert read_settings(environment).tracing == tracing


@pytest.mark.parametrize("mode", ["on", "Full", "1"])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    with pytest.raises(UserError) as caught:
        read_settings({"PERSONALAB_TRACING": mode})
    assert "off, hidden, full" in str(caught.value)


# --- what a person is told


def test_the_notice_names_the_remedy_in_both_languages(root: Path) -> None:
    for mode, other in (("hidden", "full"), ("full", "hidden")):
        services = open_services(read_settings({"PERSONALAB_DATA": str(root)}))
        services.settings = read_settings({"LANGSMITH_TRACING": "true", "PERSONALAB_TRACING": mode})
        for language in ("zh", "en"):
            notice = tracing_notice(services, language) or ""
            assert "LangSmith" in notice
            assert f"PERSONALAB_TRACING={other}" in notice
            assert "PERSONALAB_TRACING=off" in notice


_SERVER_ADDRESS = re.compile(r"http://127\.0\.0\.1:(?!9\b)\d+")
"""The address that the web server prints, not the one of LangSmith, which its own errors name."""


@pytest.mark.parametrize(
    ("command", "switch"),
    [
        (["-m", "cli", "library"], "true"),
        (["-m", "cli", "library"], "false"),
        (["-m", "cli", "chat"], "true"),
        (["-m", "mcp_server"], "true"),
        (["-m", "web", "--port", "0"], "true"),
        (["-c", "from graph.runtime import services_of_this_process as open; open(); open()"], "true"),
    ],
)
def test_every_entrance_says_once_that_traces_are_sent(root: Path, command: list[str], switch: str) -> None:
    given = {"PERSONALAB_DATA": str(root), "LANGSMITH_TRACING": switch, "LANGSMITH_API_KEY": "key"}
    given |= {"LANGSMITH_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(PROJECT)}
    log = root.parent / "stderr"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, *command],
            cwd=root.parent,
            env=os.environ | given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        ) as process,
    ):
        try:
            while process.poll() is None:
                if "web" in command and _SERVER_ADDRESS.search(log.read_text(encoding="utf-8")):
                    process.terminate()
                    process.wait()
                time.sleep(0.05)
        finally:
            process.kill()
    told = log.read_text(encoding="utf-8")
    assert told.count("PERSONALAB_TRACING=off") == (1 if switch == "true" else 0), told
