"""The state of a chat in messages, the choice of its story, and its session shown as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from nodes.chat_turn.state import TurnContext
from personalab.errors import UserError
from personalab.operations.overview import list_stories
from personalab.services import Services
from personalab.story.records import check_id
from personalab.story.transcript import Turn, shown_reply
from personalab.texts import Language


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


_LISTED = 20


def choose_story(services: Services, given: object) -> str:
    """Return the story that was named, or the only one there is; else say which there are and how to name one."""
    if given is not None and given != "":
        return check_id(given, "instance_id")
    stories = list_stories(services)
    if len(stories) == 1:
        return stories[0].instance_id
    if not stories:
        raise UserError("no_story_yet")
    listed = ", ".join(story.instance_id for story in stories[:_LISTED])
    raise UserError("no_story_chosen", stories=listed + (", …" if len(stories) > _LISTED else ""))


SHOWN_TURNS = 100
"""A thread shows at most so many turns of a session."""


def reply_id(instance_id: str, session_id: str, turn: int) -> str:
    """Name the message of a turn's reply: the same in every thread and every run."""
    return f"{instance_id}-{session_id}-{turn}-assistant"


def reasoning_fields(reasoning: str) -> dict[str, Any]:
    """Return what a message carries of a model's reasoning, where chat models of LangChain put theirs."""
    return {"reasoning_content": reasoning} if reasoning else {}


def read_input(messages: Sequence[AnyMessage]) -> tuple[HumanMessage, str]:
    """Find the human message that waits for a reply, and its text; anything but text is refused."""
    newest = next((said for said in reversed(messages) if isinstance(said, HumanMessage | AIMessage)), None)
    if not isinstance(newest, HumanMessage):
        raise UserError("no_human_message")
    content = cast("str | list[str | dict[str, Any]]", newest.content)  # pyright: ignore[reportUnknownMemberType]
    blocks = [content] if isinstance(content, str) else content
    return newest, "".join(_text(block) for block in blocks)


def _text(block: str | dict[str, Any]) -> str:
    if isinstance(block, str):
        return block
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    raise UserError("only_text", kind=str(kind)[:40])


def thread_of(
    services: Services,
    instance_id: str,
    known: Sequence[AnyMessage],
    current: tuple[str, HumanMessage],
    language: Language,
) -> list[AnyMessage]:
    """Show the current session as messages; ``language`` is the reader's.

    A human message that a front end sent keeps its id, for front ends find the place to branch off by it: the message
    before a known reply is the one it answers; ``current`` is the id of this run's reply and what it answers.
    """
    session_id = services.stories.instance(instance_id).current_session_id
    turns = services.stories.session(instance_id, session_id).view().turns[-SHOWN_TURNS:]
    answered = {reply.id: said for said, reply in pairwise(known)}
    shown: list[AnyMessage] = []
    for turn in turns:
        name = reply_id(instance_id, session_id, turn.number)
        said = current[1] if name == current[0] else answered.get(name)
        shown.extend(_turn_messages(turn, name, said, language))
    return shown


def _turn_messages(
    turn: Turn, name: str, said: AnyMessage | None, language: Language
) -> Iterator[AnyMessage]:
    if turn.user is not None:
        own = said.id if isinstance(said, HumanMessage) else None
        yield HumanMessage(turn.user.content, id=own or name.replace("-assistant", "-user"))
    if (reply := turn.last_reply) is not None:
        text = shown_reply(reply.content, language)
        yield AIMessage(text, id=name, additional_kwargs=reasoning_fields(reply.reasoning))
