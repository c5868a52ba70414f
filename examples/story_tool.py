"""Let another agent talk to a character: a turn of the story is a tool of a LangGraph agent.

With a model (``python -m examples.story_tool openai:gpt-5-mini``) an agent decides when to call the tool. Without
one, the tool is called once, as an agent would call it.
"""
# pyright: basic
# LangChain leaves the types of its agents open.

from __future__ import annotations

import asyncio
import sys

from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from graph.chat_turn import build_chat_turn
from personalab.operations.instances import new_instance
from personalab.services import Services, open_services


def make_story_tool(services: Services, instance_id: str) -> BaseTool:
    """Make a tool that says something to the character of one story."""
    turn = build_chat_turn(services).compile()

    @tool
    async def talk_to_character(text: str) -> str:
        """Say something to the character of the story and return the character's reply."""
        async for event in turn.astream(
            {"instance_id": instance_id, "user_input": text}, stream_mode="custom", version="v2"
        ):
            data = event["data"]
            if data["type"] == "error":
                return f"The character can't reply: {data['message']}"
            if data["type"] == "done":
                return data["content"]
        return "The character said nothing."

    return talk_to_character


async def main() -> None:
    """Start a story and let an agent visit it."""
    services = open_services()
    story = await new_instance(services, "char_maren", "bg_lighthouse")
    talk = make_story_tool(services, story.instance_id)
    if len(sys.argv) > 1:
        from langchain.agents import create_agent

        agent = create_agent(sys.argv[1], tools=[talk])
        request = "Ask the keeper of the lighthouse what happened to the Ansgar, and tell me what she says."
        result = await agent.ainvoke({"messages": [{"role": "user", "content": request}]})
    else:
        graph = (
            StateGraph(MessagesState).add_node("tools", ToolNode([talk])).add_edge(START, "tools").compile()
        )
        call = ToolCall(name="talk_to_character", args={"text": "Is anyone up there?"}, id="1")
        result = await graph.ainvoke({"messages": [AIMessage(content="", tool_calls=[call])]})
    print(result["messages"][-1].content)
    await services.close()


if __name__ == "__main__":
    asyncio.run(main())
