"""The state and the context of a chat in the usual shape of LangGraph: a list of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from nodes.chat_turn.state import TurnContext


class ChatState(TypedDict):
    """The messages of a thread.

    The newest human message is what the player says. After a run the thread shows the story's current session as it
    is in the file.
    """

    messages: Annotated[list[AnyMessage], add_messages]


@dataclass(kw_only=True)
class ChatContext(TurnContext):
    """What a caller may choose for one run."""

    instance_id: str | None = None
    """The story to play; may be left out where the data root has only one."""
