"""Error messages without absolute paths: files are named relative to the data root."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from mcp.server.mcpserver.exceptions import ToolError

from mcp_server.desk import McpContext
from personalab.errors import PersonaLabError


def worded(desk: McpContext, message: str) -> str:
    """Word a message for this entrance; files are named from the data root on."""
    root = desk.services.settings.data_root
    for folder in (root, os.path.realpath(root)):
        message = message.replace(f"{folder}/", "")
    return desk.worded(message)


@contextmanager
def without_paths(desk: McpContext) -> Generator[None]:
    """Raise errors with files named relative to the data root."""
    try:
        yield
    except PersonaLabError as error:
        raise ToolError(worded(desk, error.message(desk.language))) from None
