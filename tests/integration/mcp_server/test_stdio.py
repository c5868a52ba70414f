"""Tests of the server on stdio: bad input, and every way in which client or server can end."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from tests.support.mcp_server.calls import CHAT, MEMORY
from tests.support.mcp_server.processes import (
    CHECKOUT,
    ERAS,
    MODES,
    SERVER,
    EchoServer,
    Era,
    Json,
    Talk,
    begin_stories,
    ending_of,
    run,
    session_lines,
    silent_replies,
    started,
    talking,
    wait_until,
    with_provider,
    world,
    written,
)


def hanging(folder: Path) -> str:
    """Name a model that says two words of each reply and then nothing more."""
    path = folder / "hanging.json"
    reply = {"pieces": ["Good. ", "Evening. "], "delay": 0.01, "hang": True}
    path.write_text(json.dumps({"replies": [reply], "loop": True}), encoding="utf-8")
    return f"scripted:{path}"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A world without a model."""
    return world(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the server's stderr goes."""
    return tmp_path / "stderr.txt"


# --- stdout is for the protocol


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("era", "command"),
    [("legacy", (*SERVER, "--debug")), ("modern", (sys.executable, "-W", "always", "-m", "mcp_server"))],
    ids=["legacy, debug", "modern, warnings"],
)
async def test_stdout_carries_nothing_but_protocol(
    environment: dict[str, str], tmp_path: Path, era: Era, command: tuple[str, ...]
) -> None:
    heard = tmp_path / "stdout.jsonl"
    piped = ["-c", f'"$@" | tee "{heard}"', "sh", *command]
    server = StdioServerParameters(command="sh", args=piped, env=environment, cwd=CHECKOUT)
    told: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if message is not None:  # no heartbeat
            told.append(message)

    async with Client(server, mode=MODES[era]) as client:
        assert len((await client.list_tools()).tools) == len(CHAT + MEMORY)
        begun = {"character_id": "char_alserqi", "background_id": "bg_wasteland", "instance_id": "tale"}
        await client.call_tool("persona_new_instance", begun)
        said = {"instance_id": "tale", "text": "你好"}
        reply = await client.call_tool("persona_chat", said, progress_callback=hear)
        assert not reply.is_error
        await client.call_tool("persona_recall", {"instance_id": "tale", "query": "你好"})
        assert (await client.call_tool("persona_chat", {"instance_id": "nobody", "text": "?"})).is_error
        with pytest.raises(MCPError):
            await client.call_tool("no_such_tool", {})
        await client.read_resource("persona://instances/tale/prompt")
        with pytest.raises(MCPError):
            await client.read_resource("persona://instances/nobody")
        await client.get_prompt("recap", {"instance_id": "tale"})
    lines = [json.loads(line) for line in heard.read_bytes().splitlines()]
    assert told
    assert len(lines) > 10
    assert {line["jsonrpc"] for line in lines} == {"2.0"}
    assert all(("id" in line) != (line.get("method", "").startswith("notifications/")) for line in lines)


# --- endings in mid-reply


@dataclass(frozen=True)
class Outcome:
    """What a server left that ended while it wrote a reply."""

    code: int | None
    errors: str
    environment: Mapping[str, str]


def _signal(number: signal.Signals) -> Callable[[Talk], None]:
    return lambda talk: talk.running.process.send_signal(number)


ENDINGS: Mapping[str, tuple[Era, Callable[[Talk], None]]] = {
    "stdin closed (legacy)": ("legacy", Talk.hang_up),
    "stdin closed (modern)": ("modern", Talk.hang_up),
    "SIGTERM": ("legacy", _signal(signal.SIGTERM)),
    "SIGINT": ("modern", _signal(signal.SIGINT)),
    "SIGHUP": ("legacy", _signal(signal.SIGHUP)),
    "SIGKILL": ("legacy", _signal(signal.SIGKILL)),
}
QUIET = [ending for ending in ENDINGS if ending != "SIGKILL"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Let one server for each ending come into mid-reply, all at once, and end it."""
    found: dict[str, Outcome] = {}
    with contextlib.ExitStack() as stack:
        talks: dict[str, Talk] = {}
        worlds: dict[str, dict[str, str]] = {}
        for ending, (era, _) in ENDINGS.items():
            folder = tmp_path_factory.mktemp("ending")
            worlds[ending] = world(folder, PERSONALAB_MODEL=hanging(folder))
            begin_stories(worlds[ending], "tale")
            process = started(worlds[ending], folder / "stderr.txt", SERVER, piped=True)
            talks[ending] = Talk(stack.enter_context(process), era)
        for talk in talks.values():
            talk.shake_hands().begin_call("persona_chat", instance_id="tale", text="Hello?")
        for ending, talk in talks.items():
            wait_until(lambda ending=ending: written(worlds[ending], "tale", "Evening"))
            ENDINGS[ending][1](talk)
        for ending, talk in talks.items():
            found[ending] = Outcome(talk.running.wait(), talk.running.errors, worlds[ending])
    return found


@pytest.mark.parametrize("ending", QUIET)
def test_a_reply_is_closed_as_interrupted_however_the_server_is_left(
    outcomes: dict[str, Outcome], ending: str
) -> None:
    outcome = outcomes[ending]
    assert (outcome.code, outcome.errors) == (0, "")
    said, reply = session_lines(outcome.environment, "tale")
    assert (said["role"], said["content"]) == ("user", "Hello?")
    assert (reply["content"], reply["interrupted"], reply["turn"]) == ("Good. Evening. ", True, 1)
    assert silent_replies(outcome.environment, "tale") == 1


def test_a_killed_servers_reply_is_repaired_at_the_next_turn(outcomes: dict[str, Outcome], log: Path) -> None:
    killed = outcomes["SIGKILL"]
    assert killed.code == -signal.SIGKILL
    with talking({**killed.environment, "PERSONALAB_MODEL": "rehearsal"}, log) as talk:
        assert talk.call("persona_chat", instance_id="tale", text="Are you there?")["turn"] == 2
    said, reply, more, answer = session_lines(killed.environment, "tale")
    assert (said["content"], reply["content"]) == ("Hello?", "Good. Evening. ")
    assert reply["interrupted"] is True
    assert (more["turn"], ending_of(answer)) == (2, "done")


@pytest.fixture
def in_mid_reply(tmp_path: Path, log: Path) -> Generator[Talk]:
    """A server that is writing a reply."""
    environment = world(tmp_path, PERSONALAB_MODEL=hanging(tmp_path))
    begin_stories(environment, "tale")
    with talking(environment, log) as talk:
        talk.begin_call("persona_chat", instance_id="tale", text="Hello?")
        wait_until(lambda: written(environment, "tale", "Evening"))
        yield talk


def test_a_client_that_is_gone_with_both_its_pipes_is_no_traceback(
    in_mid_reply: Talk, tmp_path: Path
) -> None:
    in_mid_reply.listen_no_more()
    in_mid_reply.ask("tools/list")
    in_mid_reply.hang_up()
    in_mid_reply.running.wait()
    assert session_lines(world(tmp_path), "tale")[-1]["interrupted"] is True
    assert in_mid_reply.running.errors == ""


def test_a_client_that_reads_no_more_ends_the_server(in_mid_reply: Talk, tmp_path: Path) -> None:
    in_mid_reply.listen_no_more()
    in_mid_reply.ask("tools/list")
    wait_until(lambda: session_lines(world(tmp_path), "tale")[-1].get("interrupted"))
    with contextlib.suppress(subprocess.TimeoutExpired):
        in_mid_reply.running.process.wait(timeout=60)
    assert in_mid_reply.running.process.poll() is not None, "it lives on though nobody can hear it"
    assert in_mid_reply.running.errors == ""


# --- calls that are given up


@pytest.mark.parametrize("era", ERAS)
def test_a_cancelled_call_is_interrupted_and_counted_and_found_again(
    tmp_path: Path, log: Path, era: Era
) -> None:
    environment = world(tmp_path, PERSONALAB_MODEL=hanging(tmp_path))
    begin_stories(environment, "tale")
    said = {"instance_id": "tale", "text": "Hello?", "request_id": "once"}
    with talking(environment, log, era=era) as talk:
        cancelled = talk.begin_call("persona_chat", **said)
        wait_until(lambda: written(environment, "tale", "Evening"))
        talk.notify("notifications/cancelled", requestId=cancelled, reason="enough")
        again = talk.call("persona_chat", **said)
        assert (again["turn"], again["status"], again["reply"]) == (1, "interrupted", "Good. Evening. ")
        assert again["plot_state"]["no_update_count"] == 1
        assert len(session_lines(environment, "tale")) == 2
        assert silent_replies(environment, "tale") == 1
        talk.hang_up()
        assert (talk.running.wait(), talk.running.errors) == (0, "")


@pytest.mark.anyio
async def test_after_a_time_out_the_same_request_id_gives_the_stored_turn(
    environment: dict[str, str],
) -> None:
    begin_stories(environment, "tale")
    said = {"instance_id": "tale", "text": "hold-me", "request_id": "once"}
    with EchoServer() as provider:
        server = StdioServerParameters(
            command=SERVER[0],
            args=list(SERVER[1:]),
            env=with_provider(environment, provider),
            cwd=CHECKOUT,
        )
        async with Client(server, mode=MODES["legacy"]) as client:
            warm = await client.call_tool("persona_chat", {"instance_id": "tale", "text": "call-1"})
            assert not warm.is_error
            with pytest.raises(MCPError):
                await client.call_tool("persona_chat", said, read_timeout_seconds=1)
            wait_until(lambda: provider.asked("hold-me"))
            provider.go_on.set()
            again = await client.call_tool("persona_chat", said)
        assert again.structured_content is not None
        assert again.structured_content["turn"] == 2
        *_, user, reply = session_lines(environment, "tale")
        assert (user["content"], reply["turn"], len(session_lines(environment, "tale"))) == ("hold-me", 2, 4)
        assert (again.structured_content["reply"], again.structured_content["status"]) == (
            reply["content"],
            ending_of(reply),
        )
        assert isinstance(again.content[0], TextContent)
        assert reply["content"] in again.content[0].text


def test_the_second_half_of_a_call_may_come_to_a_new_server(
    environment: dict[str, str], tmp_path: Path
) -> None:
    begin_stories(environment, "tale")
    sampling: Json = {"sampling": {}}
    call: Json = {
        "name": "persona_chat",
        "arguments": {"instance_id": "tale", "text": "Hello?", "request_id": "once"},
    }
    with talking(environment, tmp_path / "1.txt", era="modern", capabilities=sampling) as talk:
        asked = talk.request("tools/call", **call)
        assert asked["resultType"] == "input_required"
        assert asked["inputRequests"]["reply"]["method"] == "sampling/createMessage"
        talk.running.process.kill()
        talk.running.wait()
    text = {"type": "text", "text": "Evening. [PROGRESS:1:completed]"}
    answer: Json = {"role": "assistant", "model": "mine", "content": text}
    with talking(environment, tmp_path / "2.txt", era="modern", capabilities=sampling) as talk:
        for _ in range(2):  # a state may be sent twice; its turn is answered once
            answered = talk.request(
                "tools/call", **call, requestState=asked["requestState"], inputResponses={"reply": answer}
            )
            assert answered["structuredContent"]["status"] == "done", answered
        other = {**answer, "content": {"type": "text", "text": "Not this."}}
        late = talk.request(
            "tools/call", **call, requestState=asked["requestState"], inputResponses={"reply": other}
        )
        assert late["structuredContent"]["reply"] == text["text"]
        changed = {**call, "arguments": {**call["arguments"], "text": "Something else"}}
        sent = {"requestState": asked["requestState"], "inputResponses": {"reply": answer}}
        assert talk.answer(talk.ask("tools/call", **changed, **sent))["error"]["code"] == -32602
        forged = {**sent, "requestState": asked["requestState"][:-4] + "AAAA"}
        assert talk.answer(talk.ask("tools/call", **call, **forged))["error"]["code"] == -32602
    said, reply = session_lines(environment, "tale")
    assert (said["content"], reply["content"], ending_of(reply)) == ("Hello?", text["text"], "done")


# --- what clients send


GARBAGE = (
    b"\n",
    b"not json at all\n",
    b"\xff\xfe\x00\x80\n",
    b"null\n",
    b"[]\n",
    b'"text"\n',
    b'[{"jsonrpc":"2.0","id":900,"method":"ping"}]\n',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}\n',
    b'{"jsonrpc":"2.0","id":999,"result":{}}\n',
    b'{"jsonrpc":"2.0","id":999,"error":{"code":1,"message":"no"}}\n',
    b'{"jsonrpc":"1.0","id":901,"method":"ping"}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}\n',
    b'{"jsonrpc":"2.0","method":"notifications/no_such"}\n',
    b'{"jsonrpc":"2.0","id":902,"method":"tools/call","params":[]}\n',
    b'{"jsonrpc":"2.0","id":903,"method":"tools/call","params":{"name":5}}\n',
    b'{"jsonrpc":"2.0","id":904,"method":"resources/read","params":{"uri":"persona://instances/../../etc"}}\n',
    b'{"jsonrpc":"2.0","id":905,"method":"resources/subscribe","params":{"uri":""}}\n',
    b"[" * 100_000 + b"\n",
    b"x" * 5_000_000 + b"\n",
)


def test_garbage_does_not_end_the_server(environment: dict[str, str], log: Path) -> None:
    with talking(environment, log) as talk:
        assert [tool["name"] for tool in talk.request("tools/list")["tools"]] == CHAT + MEMORY
        for data in GARBAGE:
            talk.say(data)
            assert talk.request("ping") == {}, data[:80]
        for method in ("no/such", "", "initialize\n"):
            assert talk.answer(talk.ask(method))["error"]["code"] == -32601
        assert talk.answer(talk.ask("initialize"))["error"]["code"] == -32602
        filler = "a" * 5_000_000
        assert talk.answer(talk.ask("ping", filler=filler))["result"] == {}
        refused = talk.request(
            "tools/call", name="persona_chat", arguments={"instance_id": "tale", "text": filler}
        )
        assert refused["isError"]
        assert len(json.dumps(refused)) < 2_000
        same = b'{"jsonrpc":"2.0","id":"same","method":"tools/list"}\n'
        talk.say(same + same)
        assert "result" in talk.answer("same")
        assert [tool["name"] for tool in talk.request("tools/list")["tools"]] == CHAT + MEMORY
        talk.hang_up()
        assert (talk.running.wait(), "Traceback" in talk.running.errors) == (0, False)
        for line in talk.heard:
            assert json.loads(line)["jsonrpc"] == "2.0"


def test_half_a_character_in_a_call_is_answered(environment: dict[str, str], log: Path) -> None:
    begin_stories(environment, "tale")
    with talking(environment, log) as talk:
        # JSON.stringify of a text that was cut inside an emoji gives this.
        arguments = rb'{"instance_id":"tale","text":"Hello \ud83d"}'
        talk.say(
            rb'{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"name":"persona_begin_turn","arguments":'
            + arguments
            + b"}}\n"
        )
        talk.request("ping")
        talk.hang_up()
        talk.running.wait()
        answered = [json.loads(line).get("id") for line in talk.heard]
    assert "half" in answered or None in answered, "the caller waits for ever"


# --- how it is started


def test_a_toolset_without_chat_has_none_of_its_tools(environment: dict[str, str], log: Path) -> None:
    with talking(environment, log, "--toolsets", "lab", era="modern") as talk:
        tools = [tool["name"] for tool in talk.request("tools/list")["tools"]]
        assert not set(tools) & set(CHAT)


@pytest.mark.parametrize(
    ("language", "options", "settings", "code", "words"),
    [
        ("en_US", ("--toolsets", "nonsense"), {}, 2, ("nonsense", "toolset")),
        ("zh_CN", ("--toolsets", "nonsense"), {}, 2, ("nonsense", "工具集")),
        ("zh_CN", (), {"PERSONALAB_DATA": __file__}, 1, ("PERSONALAB_DATA", "无法")),
        ("en_US", ("--max-turns", "0"), {}, 2, ("--max-turns", "10000")),
        ("zh_CN", ("--max-turns", "0"), {}, 2, ("--max-turns", "应")),
    ],
)
def test_what_cannot_be_used_is_one_sentence_in_the_readers_language(
    tmp_path: Path,
    language: str,
    options: tuple[str, ...],
    settings: dict[str, str],
    code: int,
    words: tuple[str, ...],
) -> None:
    done = run(world(tmp_path, LANG=f"{language}.UTF-8", **settings), *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert all(word in done.stderr for word in words)


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_no_traceback(environment: dict[str, str], closed: str) -> None:
    done = run(environment, command=("sh", "-c", f'exec "$@" {closed}', "sh", *SERVER))
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


def test_settings_that_cannot_be_read_do_not_keep_the_server_from_its_work(
    environment: dict[str, str], tmp_path: Path, log: Path
) -> None:
    begin_stories(environment, "tale")
    (tmp_path / "data" / "config.json").write_bytes(b"{\xff not json")
    with talking(environment, log) as talk:
        assert talk.call("persona_library", kind="characters")["characters"]
        begun = talk.call("persona_begin_turn", instance_id="tale", text="Hello?")
        assert (begun["status"], "config.json" in str(begun["warnings"])) == ("awaiting_reply", True)
        talk.hang_up()
        assert (talk.running.wait(), "Traceback" in talk.running.errors) == (0, False)


def test_folders_of_the_same_names_do_not_shadow_the_server(
    environment: dict[str, str], tmp_path: Path, log: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    for name in ("mcp_server", "personalab", "graph", "nodes", "mcp"):
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
        shutil.copy(elsewhere / name / "__init__.py", elsewhere / name / "__main__.py")
    command = (sys.executable, "-P", "-m", "mcp_server")
    with talking(environment, log, command=command, cwd=elsewhere) as talk:
        begun = talk.call("persona_new_instance", character_id="char_maren", instance_id="tale")
        assert begun["instance_id"] == "tale"
        assert talk.call("persona_chat", instance_id="tale", text="Hello?")["status"] == "done"
