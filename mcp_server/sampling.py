"""Clients that let the server use their model, and those that only announce it.

Some clients announce sampling and refuse every request. Each is asked once: the refusal is remembered for as long as
the client is connected. Up to protocol 2025-11-25 a refusal is an error that answers the request. From 2026-07-28 on a
client that refuses does not make its call again, so an open question followed by another call about the same matter
counts as refused. That protocol has no sessions over HTTP: there a client is known by name and version, for a while.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from mcp.server.mcpserver import Context
from mcp_types import ClientCapabilities, SamplingCapability

MODERN = "2026-07-28"
SAMPLING_SECONDS = 180.0
"""How long a client's model may take while the call runs."""
REMEMBERED_SECONDS = 1_800.0
"""How long a client without a connection is remembered after its last call."""
_MAX_CLIENTS = 256
_MAX_QUESTIONS = 64


def is_modern(ctx: Context[Any]) -> bool:
    """Return whether the client speaks the protocol in which a server asks by ending the call."""
    return (ctx.protocol_version or "") >= MODERN


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that a client's model has not answered: for a turn, its number and the user's words."""

    turn: int = 0
    text: str = ""
    request_id: str | None = None


@dataclass(slots=True)
class _Client:
    refused: bool = False
    questions: OrderedDict[str, OpenQuestion] = field(default_factory=OrderedDict[str, OpenQuestion])
    seen: float = 0.0


class SamplingClients:
    """What is known about the clients' willingness to use their models."""

    def __init__(self) -> None:
        self.seconds = SAMPLING_SECONDS
        self._connected: WeakKeyDictionary[object, _Client] = WeakKeyDictionary()
        self._named: OrderedDict[tuple[str, str], _Client] = OrderedDict()

    def can_be_asked(self, ctx: Context[Any]) -> bool:
        """Return whether the client offers its model and has not refused to use it."""
        offered = ctx.session.check_client_capability(ClientCapabilities(sampling=SamplingCapability()))
        return offered and not self._client(ctx).refused

    def note_refused(self, ctx: Context[Any]) -> None:
        """Remember that the client offers its model and does not let us use it."""
        self._client(ctx).refused = True

    def note_asked(self, ctx: Context[Any], about: str, question: OpenQuestion) -> None:
        """Remember a question that ended a call."""
        questions = self._client(ctx).questions
        questions[about] = question
        while len(questions) > _MAX_QUESTIONS:
            questions.popitem(last=False)

    def note_answered(self, ctx: Context[Any], about: str) -> None:
        """Forget a question that was answered; the client no longer counts as refusing."""
        client = self._client(ctx)
        client.questions.pop(about, None)
        client.refused = False

    def open_question(self, ctx: Context[Any], about: str) -> OpenQuestion | None:
        """Return the question that the client has not answered."""
        return self._client(ctx).questions.get(about)

    def _client(self, ctx: Context[Any]) -> _Client:
        # The SDK has no public way to the connection.
        connection = ctx.session._connection  # pyright: ignore[reportPrivateUsage]
        if not is_modern(ctx):
            return self._connected.setdefault(connection, _Client())
        if connection.has_standalone_channel:
            return self._connected.setdefault(connection.outbound, _Client())
        info = connection.client_params.client_info if connection.client_params else None
        return self._known((info.name, info.version) if info else ("", ""))

    def _known(self, name: tuple[str, str]) -> _Client:
        now = time.monotonic()
        while self._named and next(iter(self._named.values())).seen < now - REMEMBERED_SECONDS:
            self._named.popitem(last=False)
        client = self._named.setdefault(name, _Client())
        client.seen = now
        self._named.move_to_end(name)
        if len(self._named) > _MAX_CLIENTS:
            self._named.popitem(last=False)
        return client
