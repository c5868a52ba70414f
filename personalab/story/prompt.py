from __future__ import annotations
from typing import Literal, TypedDict
class Message(TypedDict):
    """A message as every chat model takes it."""

    role: Literal["system", "user", "assistant"]
    content: str
