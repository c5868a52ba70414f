"""The context that every tool of the lab uses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from mcp.server.mcpserver.exceptions import ToolError

from mcp_server.asking import Asking
from mcp_server.budget import Budget
from mcp_server.desk import McpContext, without_paths, worded
from mcp_server.lab_runs import Runs
from mcp_server.texts import tell
from personalab.texts import Language


@dataclass(eq=False)
class LabDesk:
    """The desk, who answers, and the runs under way."""

    desk: McpContext
    asking: Asking
    runs: Runs

    @property
    def language(self) -> Language:
        """The reader's language, as it is set now."""
        return self.desk.language

    async def budget(self) -> Budget:
        """Count what results cost."""
        return await self.desk.budget()

    def plainly(self) -> AbstractContextManager[None]:
        """Raise errors in this entrance's words, without paths."""
        return without_paths(self.desk)

    def check_none(self, given: Mapping[str, object], code: str, **words: str) -> None:
        """Refuse arguments that this use of a tool would leave unheeded."""
        names = ", ".join(name for name, value in given.items() if value is not None)
        if names:
            raise ToolError(tell(code, self.language, names=names, **words))

    def worded(self, message: str) -> str:
        """Word a message for this entrance."""
        return worded(self.desk, message)
