"""Tests of the MCP commands: client configurations without secrets, and the start of the server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.e2e.cli.conftest import CHECKOUT, Run

SECRET = "sk-this-must-not-be-shown"
CHINESE = re.compile("[\u4e00-\u9fff]")


def read_all(text: str) -> list[dict[str, Any]]:
    """Read JSON values that follow one another."""
    found: list[dict[str, Any]] = []
    while text := text.strip():
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


# --- what is printed


@pytest.mark.parametrize(
    ("client", "file", "key"),
    [
        ("claude", "Claude/claude_desktop_config.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
    ],
)
def test_a_client_gets_its_snippet_on_stdout_and_the_way_on_stderr(
    personalab: Run, root: Path, client: str, file: str, key: str
) -> None:
    done = personalab("mcp-config", client)
    assert done.returncode == 0, done.stderr
    assert file in done.stderr
    [config] = read_all(done.stdout)
    assert list(config) == [key]
    entry = config[key]["personalab"]
    assert entry["command"] == sys.executable
    assert entry["args"] == ["-P", "-m", "mcp_server"]
    assert entry["env"] == {"PERSONALAB_DATA": str(root), "PERSONALAB_MODEL": "rehearsal"}
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    assert not root.exists(), "looking fills no data root"


def test_without_a_client_all_are_shown_under_their_names(personalab: Run) -> None:
    done = personalab("mcp-config")
    assert [list(config) for config in read_all(done.stdout)] == [["mcpServers"], ["servers"], ["mcpServers"]]
    assert re.findall("── (.+)", done.stderr) == ["Claude Desktop", "VS Code", "Cursor"]


def test_programs_get_client_path_and_config(personalab: Run) -> None:
    listed = json.loads(personalab("mcp-config", "--json").stdout)
    assert [one["client"] for one in listed] == ["claude", "vscode", "cursor"]
    assert all(set(one) == {"client", "path", "config"} for one in listed)
    alone = personalab("mcp-config", "vscode", "--json")
    assert json.loads(alone.stdout) == listed[1]
    assert alone.stderr == ""


def test_a_relative_data_root_becomes_absolute(personalab: Run) -> None:
    [config] = read_all(personalab("mcp-config", "claude", PERSONALAB_DATA="here").stdout)
    assert config["mcpServers"]["personalab"]["env"]["PERSONALAB_DATA"] == str(CHECKOUT / "here")


def test_the_model_and_its_server_are_named_where_they_were_chosen(personalab: Run) -> None:
    def environment(**given: str) -> dict[str, str]:
        [config] = read_all(personalab("mcp-config", "claude", **given).stdout)
        found: dict[str, str] = config["mcpServers"]["personalab"]["env"]
        return {name: value for name, value in found.items() if name != "PERSONALAB_DATA"}

    local = {"PERSONALAB_MODEL": "openai:qwen3:8b", "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}
    assert environment(**local) == local
    assert environment(PERSONALAB_MODEL="", OPENAI_API_KEY=SECRET) == {}
    assert environment(PERSONALAB_MODEL="rehearsal", OPENAI_API_KEY=SECRET) == {
        "PERSONALAB_MODEL": "rehearsal"
    }
    assert environment(PERSONALAB_MODEL="", OPENAI_BASE_URL=f"http://me:{SECRET}@127.0.0.1/v1") == {}


# --- secrets


@pytest.mark.parametrize("words", [(), ("claude",), ("--json",), ("--http", "http://127.0.0.1:8765")])
@pytest.mark.parametrize("locale", ["zh_CN.UTF-8", "en_US.UTF-8"])
def test_no_key_and_no_token_is_ever_printed(personalab: Run, words: tuple[str, ...], locale: str) -> None:
    done = personalab(
        "mcp-config",
        *words,
        LANG=locale,
        OPENAI_API_KEY=SECRET,
        PERSONALAB_TOKEN=SECRET,
        OPENAI_BASE_URL=f"http://127.0.0.1/v1?key={SECRET}",
    )
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert ("PERSONALAB_TOKEN" if "--http" in words else "OPENAI_API_KEY") in done.stderr


def test_the_keys_place_is_told_only_where_there_is_a_key(personalab: Run) -> None:
    assert str(CHECKOUT / ".env") in personalab("mcp-config", "claude", OPENAI_API_KEY=SECRET).stderr
    assert "OPENAI_API_KEY" not in personalab("mcp-config", "claude").stderr


# --- a running server


def test_a_running_server_is_named_by_its_address(personalab: Run) -> None:
    done = personalab("mcp-config", "--http", "http://127.0.0.1:8765")
    vscode, cursor = read_all(done.stdout)
    assert vscode == {"servers": {"personalab": {"type": "http", "url": "http://127.0.0.1:8765/mcp"}}}
    assert cursor == {"mcpServers": {"personalab": {"url": "http://127.0.0.1:8765/mcp"}}}
    assert "Claude Desktop" in done.stderr, "left out, and said so: its file takes no address"


def test_a_token_is_asked_for_by_the_client(personalab: Run) -> None:
    address = "https://stories.example/mcp"
    done = personalab("mcp-config", "--http", address, PERSONALAB_TOKEN=SECRET)
    vscode, cursor = read_all(done.stdout)
    [asked] = vscode["inputs"]
    assert vscode["servers"]["personalab"]["url"] == address
    assert vscode["servers"]["personalab"]["headers"]["Authorization"] == f"Bearer ${{input:{asked['id']}}}"
    assert asked["password"] is True
    assert cursor["mcpServers"]["personalab"]["headers"] == {
        "Authorization": "Bearer ${env:PERSONALAB_TOKEN}"
    }


# --- both languages, and mistakes


def test_the_way_is_told_in_the_readers_language(personalab: Run) -> None:
    told = personalab("mcp-config", LANG="zh_CN.UTF-8", OPENAI_API_KEY="sk-x").stderr
    assert len(CHINESE.findall(told)) > 50
    assert not CHINESE.search(personalab("mcp-config", LANG="en_US.UTF-8", OPENAI_API_KEY="sk-x").stderr)


@pytest.mark.parametrize("command", ["mcp-config", "mcp", "serve"])
def test_each_command_explains_itself_in_both_languages(personalab: Run, command: str) -> None:
    done = personalab(command, "--help")
    assert done.returncode == 0
    assert CHINESE.search(done.stdout)


@pytest.mark.parametrize(
    "words",
    [
        ("mcp-config", "emacs"),
        ("mcp-config", "claude", "--http", "http://127.0.0.1:8765"),
        ("mcp-config", "--http", "127.0.0.1:8765"),
        ("mcp-config", "--http", "http://[::1"),
        ("mcp-config", "--http", "http://127.0.0.1:99999"),
        ("mcp-config", "--http", f"http://me:{SECRET}@127.0.0.1/mcp"),
        ("serve", "--host", "0.0.0.0"),
        ("serve", "--port", "70000"),
        ("serve", "--mcp-only", "--max-turns", "0"),
        ("mcp", "--toolsets", "nope"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("locale", ["zh_CN.UTF-8", "en_US.UTF-8"])
def test_a_mistake_is_one_sentence_and_exit_code_two(
    personalab: Run, words: tuple[str, ...], locale: str
) -> None:
    done = personalab(*words, LANG=locale)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert bool(CHINESE.search(done.stderr)) == (locale == "zh_CN.UTF-8")
    assert SECRET not in done.stderr


# --- the server


@pytest.fixture
def echo(tmp_path: Path) -> str:
    """A folder with programs named as the servers that only tell how they were started."""
    told = "__package__, os.getpid(), sys.flags.safe_path, sys.argv[1:]"
    for name in ("mcp_server", "web"):
        package = tmp_path / "echo" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(f"import json, os, sys; print(json.dumps([{told}]))", "utf-8")
    return str(tmp_path / "echo")


@pytest.mark.parametrize(
    ("words", "server", "expected"),
    [
        ("mcp", "mcp_server", ""),
        ("mcp --toolsets chat,lab --debug", "mcp_server", "--toolsets chat,lab --debug"),
        ("--debug mcp", "mcp_server", "--debug"),
        ("serve --mcp-only", "mcp_server", "--http --host 127.0.0.1 --port 8765"),
        ("serve --port 0", "web", "--host 127.0.0.1 --port 0"),
        (
            "serve --mcp-only --host ::1 --port 1 --toolsets chat --max-turns 3 --allow-host a --allow-host b",
            "mcp_server",
            "--http --host ::1 --port 1 --max-turns 3 --allow-host a --allow-host b --toolsets chat",
        ),
    ],
)
def test_the_command_becomes_the_server_with_its_options(
    start: Callable[..., subprocess.Popen[str]], echo: str, words: str, server: str, expected: str
) -> None:
    process = start(*words.split(), PYTHONPATH=echo)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out) == [server, process.pid, True, expected.split()]


@pytest.mark.anyio
@pytest.mark.parametrize("client_name", ["claude", "vscode", "cursor"])
async def test_what_is_pasted_really_starts_the_server(
    personalab: Run, root: Path, tmp_path: Path, client_name: str
) -> None:
    [config] = read_all(personalab("mcp-config", client_name).stdout)
    [servers] = config.values()
    entry = servers["personalab"]
    started = StdioServerParameters(
        command=entry["command"], args=entry["args"], env={**entry["env"], "HOME": str(tmp_path)}, cwd="/"
    )
    async with Client(started, read_timeout_seconds=60) as client:
        assert "persona_chat" in [tool.name for tool in (await client.list_tools()).tools]
        await client.call_tool("persona_new_instance", {"character_id": "char_maren", "instance_id": "here"})
    assert (root / "instances" / "here").is_dir()


@pytest.mark.anyio
async def test_the_command_mcp_is_the_server(environment: dict[str, str], root: Path) -> None:
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "cli", "mcp"], env=environment, cwd=CHECKOUT
    )
    async with Client(started, read_timeout_seconds=60) as client:
        assert "persona_chat" in [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.anyio
async def test_what_is_pasted_reaches_a_server_that_runs(
    personalab: Run, start: Callable[..., subprocess.Popen[str]]
) -> None:
    running = start("serve", "--mcp-only", "--port", "0")
    assert running.stderr is not None
    said = running.stderr.readline()
    address = re.search(r"http://127\.0\.0\.1:\d+", said)
    assert address, said
    [config] = read_all(personalab("mcp-config", "cursor", "--http", address[0]).stdout)
    async with Client(config["mcpServers"]["personalab"]["url"], read_timeout_seconds=60) as client:
        assert "persona_chat" in [tool.name for tool in (await client.list_tools()).tools]
