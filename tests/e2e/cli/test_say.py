"""Tests of single turns on the command line: output and exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from itertools import count
from typing import Any

import pexpect
import pytest

from personalab.services import Services
from tests.e2e.cli.conftest import SECONDS, Run, slow
from tests.support.openai_server import OpenAIServer, delta, hangs_after

Lines = Callable[[str], list[dict[str, Any]]]
Script = Callable[..., str]
Terminal = Callable[..., "pexpect.spawn[str]"]
Start = Callable[..., subprocess.Popen[str]]


def test_say_prints_the_reply_and_nothing_else(personalab: Run, story: str, script: Script) -> None:
    done = personalab("say", story, "你好", "--model", script("（点头）你来了。[PROGRESS:1:in_progress]"))
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "（点头）你来了。[PROGRESS:1:in_progress]\n",
        "",
    )


def test_say_takes_its_text_from_stdin(personalab: Run, story: str, script: Script, lines: Lines) -> None:
    done = personalab("say", story, "-", "--model", script("好"), typed="第一行\n第二行\n")
    assert done.returncode == 0
    assert lines(story)[1]["content"] == "第一行\n第二行"


def test_json_gives_each_event_as_one_line(personalab: Run, story: str, script: Script) -> None:
    done = personalab("say", story, "你好", "--json", "--model", script({"pieces": ["你", "好"]}))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["type"] for event in events[:-1]} == {"token"}
    assert "".join(event["text"] for event in events[:-1]) == events[-1]["content"] == "你好"
    assert events[-1]["type"] == "done"
    assert "你" in done.stdout
    assert {event["turn"] for event in events} == {1}


def test_json_stays_json_where_the_terminal_is_not_utf8(personalab: Run, story: str, script: Script) -> None:
    done = personalab("say", story, "你好", "--json", "--model", script("好😀"), PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout.splitlines()[-1])["content"] == "好😀"


def test_a_terminal_that_is_not_utf8_shows_what_it_can(personalab: Run, story: str, script: Script) -> None:
    done = personalab("say", story, "hello", "--model", script("ok 好"), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok ?\n", "")


def test_a_lone_surrogate_in_the_words_does_no_harm(personalab: Run, story: str, script: Script) -> None:
    assert personalab("say", story, "hi \udcff", "--model", script("ok")).returncode == 0
    shown = personalab("read", story)
    assert (shown.returncode, "hi ?" in shown.stdout) == (0, True)
    assert json.loads(personalab("read", story, "--json").stdout)["entries"][0]["content"] == "hi \udcff"


def test_a_failing_model_is_exit_code_one_and_one_sentence(
    personalab: Run, story: str, script: Script
) -> None:
    model = script({"pieces": ["我"], "error": "provider.failed"})
    done = personalab("say", story, "你好", "--model", model)
    assert done.returncode == 1
    assert done.stdout == "我\n"
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("模型出错")
    read = personalab("read", story).stdout
    assert re.search(r"  我 \(系统错误: 模型出错.*\)\n", read)


def test_a_failed_turn_can_be_retried(personalab: Run, story: str, script: Script, lines: Lines) -> None:
    personalab("say", story, "你好", "--model", script({"error": "provider.failed"}))
    done = personalab("retry", story, "--model", script("这次好了"))
    assert (done.returncode, done.stdout) == (0, "这次好了\n")
    assert [line.get("role") for line in lines(story)] == [None, "user", "assistant", "assistant"]
    again = personalab("retry", story)
    assert (again.returncode, again.stdout) == (2, "")


def test_input_that_cannot_be_used_is_exit_code_two(personalab: Run, story: str) -> None:
    for words in (("say", "inst_404", "x"), ("say", "../x", "x"), ("say", story, "  "), ("stop", story)):
        done = personalab(*words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_ctrl_c_interrupts_the_reply_and_ends_with_130(
    start: Start, story: str, script: Script, lines: Lines
) -> None:
    process = start("say", story, "你好", "--json", "--model", script(slow("我", "在")))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["text"] == "我"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (130, "")
    last = lines(story)[-1]
    assert last["content"].startswith("我")
    assert last["interrupted"] is True


def test_stop_ends_a_turn_of_another_process(
    personalab: Run, start: Start, story: str, script: Script, lines: Lines
) -> None:
    process = start("say", story, "你好", "--json", "--model", script(slow("我")))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "token"
    stopped = personalab("stop", story)
    assert (stopped.returncode, story in stopped.stdout) == (0, True)
    out, _ = process.communicate(timeout=SECONDS)
    assert json.loads(out.splitlines()[-1])["interrupted"] is True
    assert process.returncode == 0
    assert lines(story)[-1]["interrupted"] is True


def test_a_second_writer_is_told_who_is_busy(
    personalab: Run, start: Start, story: str, script: Script
) -> None:
    process = start("say", story, "你好", "--json", "--model", script(slow("我")))
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["type"] == "token"
    done = personalab("say", story, "我也要说", PERSONALAB_BUSY_SECONDS="0.2")
    assert done.returncode == 1
    assert str(process.pid) in done.stderr


def test_a_reader_that_leaves_early_is_no_error_on_the_screen(
    start: Start, story: str, script: Script
) -> None:
    process = start("say", story, "你好", "--model", script({"pieces": ["字"] * 200, "delay": 0.01}))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=SECONDS) == 1


def test_warnings_are_lines_on_stderr(personalab: Run, story: str, script: Script) -> None:
    done = personalab("say", story, "你好", "--model", script("嗯 [PROGRESS:99:completed]"))
    assert (done.returncode, done.stdout) == (0, "嗯 [PROGRESS:99:completed]\n")
    assert done.stderr.count("\n") == 1
    assert "[PROGRESS:99:completed]" in done.stderr


@pytest.mark.parametrize("events", [1, 3, 5])
def test_killed_process_keeps_every_thought_and_word_it_showed(
    start: Start, story: str, script: Script, services: Services, events: int
) -> None:
    thoughts, words = [f"想{at}。" for at in range(3)], [f"说{at}。" for at in range(200)]
    model = script({"pieces": words, "reasoning": thoughts, "delay": 0.05})
    _kill_after(events, start("say", story, "hi", "--json", "--model", model), story, services)


def test_killed_process_keeps_what_it_showed_of_a_server(
    start: Start, story: str, server: OpenAIServer, services: Services
) -> None:
    thoughts = [delta(None, reasoning_content=f"想{at}。") for at in range(3)]
    server.script([*thoughts, *hangs_after(*(f"说{at}。" for at in range(200)))])
    process = start("say", story, "hi", "--json", "--model", "openai:any", OPENAI_BASE_URL=server.url)
    _kill_after(None, process, story, services, end="说199。")


def _kill_after(
    events: int | None, process: subprocess.Popen[str], story: str, services: Services, end: str = ""
) -> None:
    """Kill a process after some events, or once the end was shown; check that what they told is in the file."""
    assert process.stdout is not None
    shown: dict[str, str] = {"reasoning": "", "token": ""}
    for _ in count() if events is None else range(events):
        event = json.loads(process.stdout.readline())
        shown[event["type"]] += event["text"]
        if end and shown["token"].endswith(end):
            break
    process.kill()
    process.wait(SECONDS)
    reply = services.stories.session(story, "sess_001").view().turns[-1].last_reply
    assert reply is not None
    assert reply.reasoning.startswith(shown["reasoning"])
    assert reply.content.startswith(shown["token"])
    assert not reply.closed


# --- reasoning, length limits and markers

THINKS = {"reasoning": ["他", "来了"], "pieces": ["走", "吧[PROG", "RESS:1:in_progress]"], "truncated": True}
LIMIT = "回复达到长度上限，可能没有说完"


def test_reasoning_is_printed_beside_the_reply_and_only_when_asked(
    personalab: Run, story: str, script: Script
) -> None:
    done = personalab("say", story, "你好", "--model", script(THINKS))
    assert (done.returncode, done.stdout) == (0, "走吧[PROGRESS:1:in_progress]\n")
    assert done.stderr == f"（{LIMIT}）\n"
    shown = personalab("say", story, "走", "--reasoning", "--model", script(THINKS))
    assert shown.stdout == "走吧[PROGRESS:1:in_progress]\n"
    assert shown.stderr == f"💭 他来了\n（{LIMIT}）\n"


def test_reasoning_in_mid_reply_leaves_a_piped_reply_as_it_is_stored(
    personalab: Run, story: str, script: Script, lines: Lines
) -> None:
    reply = {"pieces": ["走[PROG", "<think>想</think>", "RESS:1:completed]", "吧"]}
    done = personalab("say", story, "你好", "--reasoning", "--model", script(reply))
    assert done.stdout == f"{lines(story)[-1]['content']}\n"
    assert "💭 想" in done.stderr


def test_reasoning_in_mid_reply_wipes_nothing_from_the_screen(
    terminal: Terminal, story: str, script: Script
) -> None:
    reply = {"pieces": ["<think>他来了</think>", "走", "<think>想</think>", "吧"]}
    child = terminal("say", story, "你好", "--model", script(reply))
    child.expect("正在思考")
    child.expect(r"走吧\r\n")
    child.expect(pexpect.EOF)


def test_events_carry_reasoning_and_truncation_as_they_are(
    personalab: Run, story: str, script: Script
) -> None:
    personalab("settings", "set", "show_markers", "false")
    done = personalab("say", story, "你好", "--json", "--model", script(THINKS))
    events = [json.loads(line) for line in done.stdout.splitlines()]
    thoughts = "".join(event["text"] for event in events if event["type"] == "reasoning")
    assert (thoughts, events[-1]["truncated"]) == ("他来了", True)
    assert events[-1]["content"] == "走吧[PROGRESS:1:in_progress]"


def test_reading_shows_reasoning_when_asked_and_a_truncated_reply_always(
    personalab: Run, story: str, script: Script
) -> None:
    personalab("say", story, "你好", "--model", script(THINKS))
    read = personalab("read", story).stdout
    assert "来了" not in read
    assert LIMIT in read
    assert "💭 他来了\n" in personalab("read", story, "--reasoning").stdout
    entry = json.loads(personalab("read", story, "--json").stdout)["entries"][-1]
    assert ("reasoning" in entry, entry["truncated"]) == (False, True)
    asked = json.loads(personalab("read", story, "--json", "--reasoning").stdout)["entries"][-1]
    assert asked == {**entry, "reasoning": "他来了"}


def test_markers_can_be_hidden_in_texts_but_not_in_json(personalab: Run, story: str, script: Script) -> None:
    personalab("settings", "set", "show_markers", "false")
    done = personalab("say", story, "你好", "--model", script(THINKS))
    assert done.stdout == "走吧\n"
    assert "PROGRESS" not in personalab("read", story).stdout
    assert "PROGRESS" in personalab("read", story, "--json").stdout


def test_a_reply_without_words_reads_as_a_notice(personalab: Run, story: str, script: Script) -> None:
    marker = "[PROGRESS:1:completed]"
    done = personalab("say", story, "你好", "--model", script(marker, marker))
    assert (done.returncode, done.stdout) == (0, "")
    assert "没有回复" in done.stderr
    assert personalab("read", story).stdout.count("(无回复)") == 2
