"""What tests of the MCP server share: a server in this process, and a client of either era."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from mcp_server.server import PersonaServer, build_server
from personalab.services import Services
from personalab.testing.scripted import ScriptedModel, ScriptedReply

Mode = Literal["auto", "legacy"]


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Both eras of the protocol."""
    return request.param


@pytest.fixture
def server(services: Services) -> PersonaServer:
    """The server over this test's data root, without a model of its own."""
    return build_server(services)


@pytest.fixture
def provider(services: Services) -> Callable[..., ScriptedModel]:
    """Give the server a model of its own, which says what it is told."""

    def use(*replies: str | ScriptedReply) -> ScriptedModel:
        services.settings = replace(services.settings, model="scripted:test")
        model = ScriptedModel(list(replies))
        services.models["scripted:test"] = model
        return model

    return use
