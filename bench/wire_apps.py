"""The two servers that ``bench.wire_streams`` compares, each in a process of its own.

``python -m bench.wire_apps ours`` serves PersonaLab. ``python -m bench.wire_apps peer`` serves the smallest chat app
that people write with LangGraph and FastAPI: one node that calls ``ChatOpenAI``, a checkpointer in memory, and
server-sent events. Ours has no limit of turns at once here, as the app has none; it ships with 64. Both print their
address and serve until they are killed; the environment says where the model is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from fastapi.responses import StreamingResponse
from pydantic import BaseModel


class Said(BaseModel):
    """What a client of the peer sends."""

    text: str


def main() -> None:
    """Serve one of the two."""
    (_serve_ours if sys.argv[1] == "ours" else _serve_peer)()


def _serve_ours() -> None:
    from personalab.services import open_services
    from personalab.serving.server import Address, run_server
    from personalab.startup import start_quickly
    from web.app import Limits
    from web.joining import whole_app

    start_quickly()
    services = open_services()
    app = whole_app(lambda: services, limits=Limits(max_turns=1_000, calls_a_second=1e9, calls_at_once=10**9))

    async def close() -> None:
        await app.state.desk.close()

    run_server(app, Address(), told=lambda url: url, close=close)


def _serve_peer() -> None:
    from fastapi import FastAPI
    from langchain_core.messages import AIMessageChunk
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from pydantic import SecretStr

    model = ChatOpenAI(
        model=os.environ["PERSONALAB_MODEL"].partition(":")[2],
        base_url=os.environ["OPENAI_BASE_URL"],
        api_key=SecretStr("no-key"),
    )

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=InMemorySaver())
    app = FastAPI()

    async def events(thread: str, text: str) -> AsyncGenerator[str]:
        messages: Any = {"messages": [{"role": "user", "content": text}]}
        config: Any = {"configurable": {"thread_id": thread}}
        async for chunk, _ in graph.astream(messages, config, stream_mode="messages"):
            if isinstance(chunk, AIMessageChunk) and chunk.content:
                yield f"event: token\ndata: {json.dumps({'text': chunk.content})}\n\n"
        yield "event: done\ndata: {}\n\n"

    @app.post("/threads/{thread}")
    async def chat(  # pyright: ignore[reportUnusedFunction] (FastAPI calls it)
        thread: str, said: Said
    ) -> StreamingResponse:
        return StreamingResponse(events(thread, said.text), media_type="text/event-stream")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            print(f"http://127.0.0.1:{port}", file=sys.stderr, flush=True)

    server = Server(uvicorn.Config(app, port=0, log_config=None))
    server.run()


if __name__ == "__main__":
    main()
