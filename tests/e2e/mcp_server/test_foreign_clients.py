"""Tests with third-party MCP clients, in both protocol revisions, on stdio and over HTTP.

Each client is a script in ``tests/support/clients`` that plays a plan in a process of its own and prints what it
received. After each story the session's file is checked as any program would read it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.clients.running import (
    HTTP_SERVER,
    SCRIPTS,
    SECONDS,
    Json,
    Transport,
    play,
    python_of,
    reachable,
    require_node,
    run,
    serving,
    world,
)
from tests.support.openai_server import OpenAIServer, hangs_after, says

pytestmark = pytest.mark.full

TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@dataclass(frozen=True, slots=True)
class Client:
    """A client and the era it speaks."""

    script: str
    era: Literal["legacy", "modern"]

    def __str__(self) -> str:
        return f"{Path(self.script).stem}-{self.era}"

    def command(self) -> list[str | Path]:
        """Say how it is started; skip where it is not installed."""
        if self.script.endswith(".cjs"):
            require_node()
            return ["node", SCRIPTS / self.script]
        return [python_of(self.script.removesuffix("_client.py")), SCRIPTS / self.script]

    def play(self, plan: Json, environment: dict[str, str]) -> Json:
        """Play a plan and give what was seen."""
        return play(self.command(), {"era": self.era, **plan}, environment)


TYPESCRIPT = (
    Client("typescript_v1.cjs", "legacy"),
    Client("typescript_v2.cjs", "legacy"),
    Client("typescript_v2.cjs", "modern"),
)
ONE_AN_ERA = (TYPESCRIPT[0], TYPESCRIPT[2])
FASTMCP = Client("fastmcp_client.py", "modern")
LANGCHAIN = Client("langchain_client.py", "legacy")


@pytest.fixture
def online() -> Iterator[OpenAIServer]:
    """A provider that writes the replies, as it is told."""
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The world that servers and clients of a test live in."""
    return world(tmp_path)


def call(tool: str, *, abort: bool = False, **arguments: Any) -> Json:
    """Plan a call."""
    return {"do": "call", "name": tool, "arguments": arguments, "abort": abort}


def listing(what: str) -> Json:
    """Plan a listing."""
    return {"do": "list", "what": what}


def complete(kind: str, key: str, of: str, argument: str, value: str) -> Json:
    """Plan a completion of an argument, of a prompt by its name or of a template by its address."""
    return {"do": "complete", "ref": {"type": kind, key: of}, "argument": {"name": argument, "value": value}}


BEGIN = call(
    "persona_new_instance", character_id="char_maren", background_id="bg_lighthouse", instance_id="tale"
)


def check_session(
    root: Path, *turns: tuple[str, str] | tuple[str, str, str], instance_id: str = "tale"
) -> None:
    """Check that a session holds these turns, numbered from 1, each with its reply and how that ended."""
    path = root / "instances" / instance_id / "sessions" / "sess_001.jsonl"
    metadata, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert metadata["type"] == "metadata"
    assert [(line["role"], line["turn"]) for line in lines] == [
        (role, number) for number in range(1, len(turns) + 1) for role in ("user", "assistant")
    ]
    flags = ("interrupted", "empty", "error")
    found = [
        (said["content"], reply["content"], next((flag for flag in flags if reply.get(flag)), "done"))
        for said, reply in zip(lines[::2], lines[1::2], strict=True)
    ]
    assert found == [turn if len(turn) == 3 else (*turn, "done") for turn in turns]


WRITTEN = "(She turns the wick down.) Evening. You rowed far."
SAMPLED = "(She points at the kettle.) Sit. The log says the Ansgar passed at nine."
STORY: Sequence[Json] = (
    listing("tools"),
    BEGIN,
    call("persona_begin_turn", instance_id="tale", text="Good evening, keeper."),
    call("persona_end_turn", instance_id="tale", turn=1, reply=WRITTEN),
    call("persona_chat", instance_id="tale", text="What does the log say?", request_id="once"),
    call("persona_chat", instance_id="tale", text="What does the log say?", request_id="once"),
    call("persona_read", instance_id="tale"),
    call("persona_chat", instance_id="nobody", text="Hello?"),
    listing("resources"),
    listing("templates"),
    listing("prompts"),
    {"do": "read", "uri": "persona://instances/tale"},
    {"do": "read", "uri": "persona://characters/char_maren"},
    {"do": "prompt", "name": "recap", "arguments": {"instance_id": "tale"}},
    complete("ref/prompt", "name", "play", "character_id", "char_m"),
    complete("ref/resource", "uri", "persona://instances/{instance_id}", "instance_id", "t"),
)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", [*TYPESCRIPT, FASTMCP], ids=str)
def test_a_client_writes_replies_itself_and_through_sampling(
    client: Client, transport: Transport, environment: dict[str, str], root: Path
) -> None:
    with reachable(transport, environment) as target:
        seen = client.play({**target, "replies": [SAMPLED], "steps": STORY}, environment)
    assert seen.get("protocol", REVISIONS["legacy"]) == REVISIONS[client.era]
    tools, made, begun, ended, chatted, again, read, refused, *browsed = seen["steps"]
    assert {"persona_chat", "persona_begin_turn", "persona_end_turn"} <= {tool["name"] for tool in tools}
    assert made["structuredContent"]["instance_id"] == "tale"
    check_begun(begun["structuredContent"])
    check_turn(ended, 1, WRITTEN)
    check_turn(chatted, 2, SAMPLED)
    check_turn(again, 2, SAMPLED)
    newest = [line["content"] for line in read["structuredContent"]["entries"]][:2]
    assert newest == ["What does the log say?", SAMPLED]
    assert refused["isError"] is True
    assert "nobody" in refused["content"][0]["text"]
    check_asked(seen["asked"])
    check_browsed(browsed)
    check_session(root, ("Good evening, keeper.", WRITTEN), ("What does the log say?", SAMPLED))


def check_asked(asked: list[Json]) -> None:
    """Check that the client's model was asked once, with the persona and what was said last."""
    [request] = asked
    assert "Maren" in request["systemPrompt"]
    assert request["messages"][-1]["role"] == "user"
    assert "What does the log say?" in json.dumps(request["messages"][-1])


def check_browsed(browsed: list[Any]) -> None:
    """Check what was listed, read and completed after the story."""
    resources, templates, prompts, story, character, recap, completed_character, completed_story = browsed
    assert "persona://instances/tale" in {resource["uri"] for resource in resources}
    assert "persona://instances/{instance_id}" in {template["uriTemplate"] for template in templates}
    assert {prompt["name"] for prompt in prompts} == {"play", "recap"}
    assert json.loads(story[0]["text"])["character_id"] == "char_maren"
    assert "Maren" in json.loads(character[0]["text"])["name"]
    assert SAMPLED in recap[0]["content"]["text"]
    assert (completed_character, completed_story) == (["char_maren"], ["tale"])


def check_begun(begun: Json) -> None:
    assert (begun["turn"], begun["status"]) == (1, "awaiting_reply")
    assert "Maren" in begun["prompt"]["system"]
    assert begun["prompt"]["messages"][-1]["content"].startswith("Good evening, keeper.")
    assert begun["tokens"]


def check_turn(result: Json, turn: int, reply: str, status: str = "done") -> None:
    """Check a finished turn: the reply is whole in the text and in the structured content."""
    assert not result.get("isError"), result
    told = result["structuredContent"]
    assert (told["instance_id"], told["turn"], told["status"], told["reply"]) == ("tale", turn, status, reply)
    assert {"session_id", "plot_state", "warnings", "usage"} <= told.keys()
    assert reply in result["content"][0]["text"]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", TYPESCRIPT, ids=str)
def test_a_client_that_aborts_in_mid_reply_can_go_on(
    client: Client, transport: Transport, tmp_path: Path, root: Path, online: OpenAIServer
) -> None:
    online.script(hangs_after("The wind turned. Then the lamp"), says("It went out. ", "I was ", "asleep."))
    environment = with_provider(tmp_path, online)
    asked: Json = {"instance_id": "tale", "text": "What happened that night?", "request_id": "once"}
    steps = [
        BEGIN,
        call("persona_chat", abort=True, **asked),
        call("persona_chat", **asked),
        call("persona_chat", instance_id="tale", text="And then?"),
    ]
    with reachable(transport, environment) as target:
        _, aborted, again, after = client.play(
            {**target, "replies": ["never asked"], "steps": steps}, environment
        )["steps"]
    assert "pressed stop" in aborted["failure"]
    sentences = [note["message"] for note in aborted["progress"] if note.get("message")]
    assert "The wind turned." in sentences[0]
    assert online.client_left.is_set()
    check_turn(again, 1, "The wind turned. Then the lamp", "interrupted")
    check_turn(after, 2, "It went out. I was asleep.")
    check_session(
        root,
        ("What happened that night?", "The wind turned. Then the lamp", "interrupted"),
        ("And then?", "It went out. I was asleep."),
    )


@pytest.mark.parametrize("client", ONE_AN_ERA, ids=str)
def test_a_server_that_is_told_to_end_closes_the_reply_it_writes(
    client: Client, tmp_path: Path, root: Path, online: OpenAIServer
) -> None:
    online.script(hangs_after("The wind turned. Then the lamp"))
    environment = with_provider(tmp_path, online)
    with serving(HTTP_SERVER, environment) as running:
        chat = call("persona_chat", instance_id="tale", text="What happened that night?")
        plan = {
            "url": running.url,
            "era": client.era,
            "steps": [BEGIN, {**chat, "end_server": running.process.pid}],
        }
        with subprocess.Popen(
            client.command(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, text=True
        ) as playing:
            assert playing.stdin is not None
            with playing.stdin:
                json.dump(plan, playing.stdin)
            running.process.wait(SECONDS)
            playing.kill()
    check_session(root, ("What happened that night?", "The wind turned. Then the lamp", "interrupted"))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", ONE_AN_ERA, ids=str)
def test_a_client_that_watches_a_story_hears_of_its_turns(
    client: Client, transport: Transport, environment: dict[str, str], root: Path
) -> None:
    story = "persona://instances/tale"
    steps = [
        BEGIN,
        {"do": "watch", "uri": story},
        call("persona_chat", instance_id="tale", text="Good evening."),
        {"do": "until_updated", "uri": story},
    ]
    with reachable(transport, environment) as target:
        seen = client.play({**target, "replies": [SAMPLED], "steps": steps}, environment)
    _, watching, chatted, updated = seen["steps"]
    assert watching is None
    check_turn(chatted, 1, SAMPLED)
    assert updated == story
    check_session(root, ("Good evening.", SAMPLED))


def with_provider(folder: Path, provider: OpenAIServer) -> dict[str, str]:
    """Make a world in which a provider writes the replies."""
    return world(
        folder,
        PERSONALAB_MODEL="openai:some-model",
        OPENAI_BASE_URL=provider.url,
        OPENAI_API_KEY="sk-secret-123",
    )


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_langchain_gets_the_tools_as_its_own(
    transport: Transport, tmp_path: Path, root: Path, online: OpenAIServer
) -> None:
    online.script(says("The sea is flat. ", "Sit down."))
    environment = with_provider(tmp_path, online)
    steps = [
        listing("tools"),
        BEGIN,
        call("persona_chat", instance_id="tale", text="How is the sea?"),
        call("persona_chat", instance_id="nobody", text="Hello?"),
        {"do": "read", "uri": "persona://instances/tale"},
        {"do": "prompt", "name": "recap", "arguments": {"instance_id": "tale"}},
    ]
    with reachable(transport, environment) as target:
        seen = LANGCHAIN.play({**target, "steps": steps}, environment)
    tools, _, chatted, refused, resource, prompt = seen["steps"]
    assert {"persona_chat", "persona_recall"} <= {tool["name"] for tool in tools}
    told = chatted["artifact"]["structured_content"]
    assert (told["turn"], told["status"], told["reply"]) == (1, "done", "The sea is flat. Sit down.")
    assert told["reply"] in chatted["content"][0]["text"]
    assert seen["progress"]
    assert refused["status"] == "error"
    assert "nobody" in str(refused["content"])
    assert "tale" in resource[0]
    assert prompt[0]["role"] == "human"
    check_session(root, ("How is the sea?", "The sea is flat. Sit down."))


@dataclass(frozen=True, slots=True)
class Inspector:
    """The Inspector's command line on one server."""

    target: Json
    era: str
    environment: dict[str, str]

    def ask(self, method: str, *options: str) -> tuple[int, Json]:
        """Ask for a method; give the exit code and what was printed."""
        server = self.target.get("command") or [self.target["url"], "--transport", "http"]
        how = ["--method", method, "--protocol-era", self.era, "--format", "json"]
        if "command" in self.target:  # the Inspector gives a server nothing of its own environment
            ours = (
                f"{name}={value}"
                for name, value in self.environment.items()
                if name.startswith("PERSONALAB_") and value
            )
            how += [word for pair in ours for word in ("-e", pair)]
        ended = run(["mcp-inspector", "--cli", *server, *how, *options], self.environment)
        print(ended.stderr, file=sys.stderr)
        return ended.returncode, json.loads(ended.stdout)

    def call(self, tool: str, **arguments: str) -> tuple[int, Json]:
        """Call a tool; give the exit code and its result."""
        given = [word for name, value in arguments.items() for word in ("--tool-arg", f"{name}={value}")]
        code, told = self.ask("tools/call", "--tool-name", tool, *given)
        return code, told["result"]


@pytest.mark.parametrize("era", REVISIONS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_inspector_approves_of_the_tools_and_calls_them(
    transport: Transport, era: str, environment: dict[str, str], root: Path
) -> None:
    require_node()
    with reachable(transport, environment) as target:
        inspector = Inspector(target, era, environment)
        code, listed = inspector.ask("tools/list", "--strict")
        assert code == 0
        assert "persona_chat" in {tool["name"] for tool in listed["result"]["tools"]}
        code, _ = inspector.call("persona_new_instance", character_id="char_maren", instance_id="tale")
        assert code == 0
        code, chatted = inspector.call("persona_chat", instance_id="tale", text="Good evening.")
        assert code == 0
    reply = chatted["structuredContent"]["reply"]
    check_turn(chatted, 1, reply)
    assert "persona_begin_turn" in json.dumps(chatted["structuredContent"]["warnings"])
    check_session(root, ("Good evening.", reply))


@pytest.mark.parametrize(("transport", "era"), [("stdio", "legacy"), ("http", "modern")])
def test_the_inspector_sees_resources_prompts_the_app_and_errors(
    transport: Transport, era: str, environment: dict[str, str]
) -> None:
    require_node()
    with reachable(transport, environment) as target:
        inspector = Inspector(target, era, environment)
        code, listed = inspector.ask("resources/list")
        found = {resource["uri"] for resource in listed["result"]["resources"]}
        assert (code, "persona://characters/char_maren" in found) == (0, True)
        code, listed = inspector.ask("prompts/list")
        assert (code, {prompt["name"] for prompt in listed["result"]["prompts"]}) == (0, {"play", "recap"})
        code, told = inspector.ask("tools/call", "--tool-name", "persona_prompt", "--app-info")
        assert (code, told["appInfo"]["hasApp"]) == (0, True)
        code, refused = inspector.call("persona_chat", instance_id="nobody", text="Hello?")
        assert (code, refused["isError"]) == (5, True)
