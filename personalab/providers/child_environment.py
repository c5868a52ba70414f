"""The environment variables that child processes receive: a short allowlist instead of our own environment."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = frozenset(
    [
        # the system: where things are, who runs them, in which language
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        # the network between the program and its service
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        # switches of the claude command line that carry no prefix of its own
        *("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "DO_NOT_TRACK"),
        *("DISABLE_PROMPT_CACHING", "MAX_THINKING_TOKENS", "API_TIMEOUT_MS"),
    ]
)
_PREFIXES = ("LC_", "XDG_", "ANTHROPIC_", "CLAUDE_", "FAKE_CLAUDE_")
"""``CLAUDECODE`` is not among them: with it, ``claude`` takes itself for a part of another one and does not run."""
_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_PROJECT", "CLOUD_ML_REGION", "VERTEX_REGION_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
"""Credentials of a cloud, passed on only if ``claude`` is configured to use that cloud."""
_OFF = ("", "0", "false", "no", "off")


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Keep only what the ``claude`` command line needs; our token, keys and database address are not among it."""
    prefixes = _PREFIXES
    for switch, names in _CLOUDS.items():
        if environment.get(switch, "").strip().lower() not in _OFF:
            prefixes += names
    return {name: value for name, value in environment.items() if name in _NAMES or name.startswith(prefixes)}
