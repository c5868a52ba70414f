"""A program that the lab starts sees a short list of environment variables, and none of our secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.providers.child_environment import child_environment
from personalab.services import open_services
from personalab.settings import read_settings
from tests.support.providers.fake_cli import question

SECRETS = {
    "PERSONALAB_TOKEN": "planted-token",
    "PERSONALAB_DATABASE": "postgresql://user:planted-database@localhost/x",
    "OPENAI_API_KEY": "planted-openai",
    "OPENAI_BASE_URL": "http://planted-address/v1",
    "LANGSMITH_API_KEY": "planted-langsmith",
    "AWS_SECRET_ACCESS_KEY": "planted-aws",
    "GOOGLE_APPLICATION_CREDENTIALS": "planted-google",
    "AZURE_CLIENT_SECRET": "planted-azure",
    "DATABASE_URL": "planted-url",
    "GITHUB_TOKEN": "planted-github",
    "NODE_OPTIONS": "--require=planted",
    "LD_PRELOAD": "",
    "PYTHONPATH": "planted-path",
    "SSH_AUTH_SOCK": "planted-socket",
    "CLAUDECODE": "planted-inside",
}
NAMES = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "DO_NOT_TRACK"),
    *("DISABLE_PROMPT_CACHING", "MAX_THINKING_TOKENS", "API_TIMEOUT_MS"),
}
PREFIXES = ("LC_", "XDG_", "ANTHROPIC_", "CLAUDE_", "FAKE_CLAUDE_")
CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
PROGRAM = """#!/bin/sh
cat /proc/$$/environ > "{folder}/seen.$$"
[ "$1" = --version ] && echo "1.0.0" && exit
echo '{{"type":"result","subtype":"success","is_error":false,"result":"ok"}}'
"""


@pytest.mark.parametrize("explicit", [True, False])
def test_child_sees_only_listed_variables(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explicit: bool
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-claude")
    program = tmp_path / "claude"
    program.write_text(PROGRAM.format(folder=tmp_path), encoding="utf-8")
    program.chmod(0o755)
    # Settings read from a mapping used to hand the whole environment of this process on.
    services = open_services(read_settings({"PERSONALAB_DATA": str(root)} if explicit else None))
    settings = services.lab_sessions.settings()
    services.lab_sessions.save_settings(settings.changed(cli_path=str(program)))

    async def call() -> str:
        executor = await services.executor("opus")
        return (await executor.run(question(), tmp_path / "spool")).text

    assert asyncio.run(call()) == "ok"
    seen = [path.read_bytes().decode("utf-8") for path in tmp_path.glob("seen.*")]
    assert len(seen) == 2, "the version was asked for, and the call was made"
    for environment in seen:
        assert "planted" not in environment
        variables = dict(row.split("=", 1) for row in environment.split("\0") if row)
        assert variables["ANTHROPIC_API_KEY"] == "key-of-claude"
        assert variables["PATH"]
        assert {name for name in variables if not name.startswith(PREFIXES)} <= NAMES


names = st.one_of(
    st.sampled_from([*SECRETS, *sorted(NAMES), "LC_ALL", "XDG_DATA_HOME", "ANTHROPIC_API_KEY"]),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1, max_size=30),
)


@given(st.dictionaries(names, st.text(max_size=20)))
def test_only_listed_names_are_handed_on(environment: dict[str, str]) -> None:
    for switch in CLOUDS:
        environment.pop(switch, None)
    kept = child_environment(environment)
    assert kept == {
        name: value for name, value in environment.items() if name in NAMES or name.startswith(PREFIXES)
    }


def test_cloud_credentials_need_the_switch_of_that_cloud() -> None:
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "a",
        "GOOGLE_APPLICATION_CREDENTIALS": "g",
        "AZURE_CLIENT_SECRET": "z",
    }
    assert child_environment(secrets) == {}
    assert child_environment({**secrets, "CLAUDE_CODE_USE_BEDROCK": "0"}).keys() == {
        "CLAUDE_CODE_USE_BEDROCK"
    }
    for switch, secret in zip(CLOUDS, secrets, strict=True):
        assert child_environment({**secrets, switch: "1"}).keys() == {switch, secret}
