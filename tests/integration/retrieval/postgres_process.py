"""A program that uses the PostgreSQL database from another process. The tests start it.

… save FIRST LAST    save conversations with a story place, a number each
… undriven           use PostgreSQL where its driver is not installed

The database's address is in the environment variable TEST_DATABASE.
"""

from __future__ import annotations

import os
import sys

from personalab.errors import PersonaLabError
from personalab.memory.records import Conversation, StoryPlace, read_request
from personalab.retrieval.memory.postgres import PostgresBackend

NOW = "2025-10-16T10:30:00Z"
SESSION = "3f0f7a52-6f0b-4a53-9a0f-5f5a4f6f7b01"


def said(number: int, *, agent_id: str = "agent", user_id: str = "user") -> Conversation:
    """Make the conversation that is saved under a number."""
    messages = [
        {"role": "user", "content": f"这是第 {number} 次谈话"},
        {"role": "assistant", "content": "好"},
    ]
    return read_request({"agent_id": agent_id, "user_id": user_id, "messages": messages}, NOW)


def said_in_story(number: int) -> Conversation:
    """Make one that was held in a story."""
    plain = said(number)
    story = StoryPlace("inst_001", "sess_001", number, number)
    return Conversation(
        plain.conversation_id, "agent", "user", NOW, plain.messages, SESSION, story=story, named_session=True
    )


def main() -> None:
    """Do what the arguments ask for."""
    task, *rest = sys.argv[1:]
    backend = PostgresBackend(os.environ["TEST_DATABASE"])
    if task == "save":
        for number in range(int(rest[0]), int(rest[1]) + 1):
            backend.save_conversation(said_in_story(number))
        backend.close()
        return
    sys.modules["psycopg"] = None  # pyright: ignore[reportArgumentType] (so Python knows what is not there)
    try:
        backend.memories(1, "")
    except PersonaLabError as error:
        print(error.code, error)


if __name__ == "__main__":
    main()
