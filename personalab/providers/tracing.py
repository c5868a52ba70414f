"""The data of a run that LangSmith, LangChain's tracing service, receives."""

from __future__ import annotations

from functools import cache
from typing import Any

HIDDEN = "hidden by PERSONALAB_TRACING"


@cache
def limit_tracing(mode: str) -> None:
    """Send nothing (``off``) or no texts (``hidden``) from this process; ``full`` leaves everything as it is.

    LangSmith's client is configured rather than its environment: its lookups of variables are cached, and the
    variables that hide inputs and outputs do not hide errors, which may quote either.
    """
    if mode == "full":
        return
    import langsmith

    if mode == "off":
        langsmith.configure(enabled=False)
        return
    client = langsmith.Client(hide_inputs=True, hide_outputs=True, hide_metadata=True, anonymizer=_hide)
    langsmith.configure(client=client)


def _hide(fields: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(fields, HIDDEN)
