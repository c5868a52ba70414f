"""A scripted model behind OpenAI's chat API that calls tools, as the models of agent frameworks do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.openai_server import Answer, Behaviour, Json, OpenAIServer, Request

Call = tuple[str, Json]
"""A tool and its arguments."""
FINAL = "The lamp is lit."
"""What the model says after its last call."""


class ToolCallingServer(OpenAIServer):
    """Calls one tool for each request, then says the final words.

    Like a model in strict mode it sends every argument that the tool's schema requires: its default, else null, else an
    empty text for those it has no value for.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self._calls = list(calls)

    def take(self, request: Request) -> Behaviour:
        """Choose what the model does next."""
        super().take(request)
        offered = {tool["function"]["name"]: tool["function"] for tool in request.body.get("tools", [])}
        if self._calls:
            return [self._calling(offered, *self._calls.pop(0))]
        if "final_answer" in offered:
            return [self._calling(offered, "final_answer", {"answer": FINAL})]
        return [_message({"content": FINAL}, "stop")]

    def heard(self) -> str:
        """Give every text of the last request's messages: what the tools returned."""
        return _texts(self.requests[-1].body["messages"])

    def _calling(self, offered: Mapping[str, Json], wanted: str, given: Json) -> Answer:
        """Call a tool by its name, which some frameworks prefix with the server's."""
        name = next(name for name in offered if name == wanted or name.endswith(f"-{wanted}"))
        schema = offered[name]["parameters"]
        blanks = {field: _blank(schema["properties"][field]) for field in schema.get("required", [])}
        function = {"name": name, "arguments": json.dumps({**blanks, **given})}
        call = {"id": f"call_{len(self.requests)}", "type": "function", "function": function}
        return _message({"content": None, "tool_calls": [call]}, "tool_calls")


def _blank(rule: Json) -> Any:
    if "default" in rule:
        return rule["default"]
    return None if {"type": "null"} in rule.get("anyOf", []) else ""


def _message(message: Json, finish: str) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return Answer(200, json.dumps(body).encode())


def _texts(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(_texts(part) for part in value.values())  # pyright: ignore[reportUnknownVariableType] (any JSON)
    if isinstance(value, list):
        return "\n".join(_texts(part) for part in value)  # pyright: ignore[reportUnknownVariableType] (any JSON)
    return value if isinstance(value, str) else ""
