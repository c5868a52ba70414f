"""Tests of the interactive chat at a pseudo-terminal and of the chat in a pipe."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect

from personalab.services import Services
from tests.e2e.cli.conftest import Run, slow

Terminal = Callable[..., "pexpect.spawn[str]"]
Script = Callable[..., str]
Lines = Callable[[str], list[dict[str, Any]]]

CTRL_C, CTRL_D, UP, ENTER = "\x03", "\x04", "\x1b[A", "\r"
BYE = "再见"


def echo(text: str) -> str:
    """Match what was typed as it stands above the reply."""
    return f"› (\x1b\\[0m)?{text}"


def leave(child: pexpect.spawn[str]) -> int | None:
    """Press Ctrl-D and wait for the end."""
    child.send(CTRL_D)
    child.expect(BYE)
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_a_newcomer_is_led_to_a_story(terminal: Terminal, root: Path) -> None:
    child = terminal("chat")
    child.expect("语言 / Language")
    child.send(ENTER)
    child.expect("选择角色")
    child.expect("Alserqi")
    child.expect("回车 = 1")
    child.send("9" + ENTER)
    child.expect("1 到 2")
    child.send(ENTER)
    child.expect("选择背景")
    child.expect("1.*废土复仇记")
    child.send(ENTER)
    child.expect("大纲 1/5：发现背叛者的线索")
    child.expect("演示脚本")
    child.expect("OPENAI_API_KEY")
    child.expect("› ")
    assert leave(child) == 0
    assert (root / "instances" / "inst_001").is_dir()


def test_a_story_is_gone_on_with(terminal: Terminal, personalab: Run, story: str, script: Script) -> None:
    personalab("say", story, "昨天的话", "--model", script("昨天的回答"))
    child = terminal("chat")
    child.expect("继续哪个故事")
    child.send(ENTER)
    child.expect("昨天的话")
    child.expect("昨天的回答")
    assert leave(child) == 0


def test_the_reply_streams_above_the_line_one_types_on(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    model = script({"pieces": ["灯火", "一盏盏", "亮起", "[PROGRESS:1:completed]"], "delay": 0.2})
    child = terminal("chat", story, "--model", model)
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect(echo("你好"))
    child.expect("Alserqi")
    child.expect("灯火")
    child.expect("一盏盏")
    child.expect(r"灯火一盏盏亮起(\x1b\[\d+m)?\[PROGRESS:1:completed\]")
    child.send("/outline" + ENTER)
    child.expect("✓? ?1. 发现背叛者的线索.*已完成")
    assert leave(child) == 0
    assert lines(story)[-1]["content"] == "灯火一盏盏亮起[PROGRESS:1:completed]"


def test_reasoning_is_folded_and_shown_on_demand(terminal: Terminal, story: str, script: Script) -> None:
    answers = {"reasoning": ["走"], "pieces": ["走吧"], "truncated": True}
    model = script({"reasoning": ["他", "来了"], "hang": True}, answers)
    child = terminal("chat", story, "--model", model)
    child.expect("› ")
    child.send("/reasoning" + ENTER)
    child.expect("上一条回复没有思考过程")
    child.send("你好" + ENTER)
    child.expect("正在思考")
    child.send("/stop" + ENTER)
    child.expect("思考过程 3 字，输入 /reasoning 查看")
    child.expect("已中断")
    child.send("/reasoning" + ENTER)
    child.expect("💭 他来了")
    child.send("/retry" + ENTER)
    child.expect("思考过程 1 字，输入 /reasoning 查看")
    child.expect("Alserqi")
    child.expect("走吧")
    child.expect("回复达到长度上限，可能没有说完")
    child.send("/reasoning" + ENTER)
    child.expect("💭 走")
    assert leave(child) == 0


def test_reasoning_in_mid_reply_is_folded_after_it(terminal: Terminal, story: str, script: Script) -> None:
    child = terminal("chat", story, "--model", script({"pieces": ["走吧", "<think>他累了</think>", "。"]}))
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect("走吧。")
    child.expect("思考过程 3 字，输入 /reasoning 查看")
    assert leave(child) == 0


def test_markers_are_dimmed_at_a_terminal_and_can_be_hidden(
    terminal: Terminal, story: str, script: Script
) -> None:
    reply = {"pieces": ["走吧", "[PROG", "RESS:1:completed]", "\n好"]}
    child = terminal("chat", story, "--model", script(reply, reply))
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect(r"走吧\x1b\[2m\[PROGRESS:1:completed\]\x1b\[0m")
    child.send("/settings show_markers false" + ENTER)
    child.expect("已保存")
    child.send("再说" + ENTER)
    child.expect(echo("再说"))
    child.expect("走吧\r+\n")
    assert "PROGRESS" not in str(child.before)
    assert leave(child) == 0


def test_stop_typed_during_a_reply_ends_it(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    child = terminal("chat", story, "--model", script(slow("慢慢说")))
    child.expect("› ")
    child.send("讲个故事" + ENTER)
    child.expect("慢慢说")
    child.send("/stop" + ENTER)
    child.expect("已中断")
    assert leave(child) == 0
    assert (lines(story)[-1]["content"], lines(story)[-1]["interrupted"]) == ("慢慢说", True)


def test_ctrl_c_ends_the_reply_and_not_the_program(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    child = terminal("chat", story, "--model", script(slow("慢慢说"), "第二个回答"))
    child.expect("› ")
    child.send("讲个故事" + ENTER)
    child.expect("慢慢说")
    child.send(CTRL_C)
    child.expect("已中断")
    child.send("再来" + ENTER)
    child.expect("第二个回答")
    child.send(CTRL_C)
    child.expect("Ctrl-D")
    assert leave(child) == 0
    assert lines(story)[2]["interrupted"] is True
    assert lines(story)[4]["content"] == "第二个回答"


def test_ctrl_c_takes_nothing_away_that_was_typed(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    child = terminal("chat", story, "--model", script(slow("慢慢说"), "第二个回答", "第三个回答"))
    child.expect("› ")
    child.send("讲个故事" + ENTER)
    child.expect("慢慢说")
    child.send("排队的话" + ENTER)
    child.expect("已排队：排队的话")
    child.send("写到一半")
    child.expect("写到一半")
    child.send(CTRL_C)
    child.expect("已中断")
    child.expect(echo("排队的话"))
    child.expect("第二个回答")
    child.send("的话" + ENTER)
    child.expect(echo("写到一半的话"))
    child.expect("第三个回答")
    assert leave(child) == 0
    said = [line["content"] for line in lines(story) if line.get("role") == "user"]
    assert said == ["讲个故事", "排队的话", "写到一半的话"]


def test_a_signal_to_end_leaves_the_chat_with_the_reply_closed(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    child = terminal("chat", story, "--model", script(slow("慢慢说")))
    child.expect("› ")
    child.send("讲个故事" + ENTER)
    child.expect("慢慢说")
    child.kill(signal.SIGTERM)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 143
    assert lines(story)[-1]["interrupted"] is True


def test_a_new_story_tells_its_world_once(terminal: Terminal, story: str, script: Script) -> None:
    world = "玩家是"
    child = terminal("chat", story, "--model", script("好的", loop=True))
    child.expect(world)
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect("好的")
    assert leave(child) == 0
    child = terminal("chat", story)
    child.expect("› ")
    assert world not in str(child.before)


def test_a_signal_ends_the_reply_and_not_the_program(terminal: Terminal, story: str, script: Script) -> None:
    child = terminal("chat", story, "--model", script(slow("慢慢说")))
    child.expect("› ")
    child.send("讲个故事" + ENTER)
    child.expect("慢慢说")
    child.kill(signal.SIGINT)
    child.expect("已中断")
    assert leave(child) == 0


def test_what_is_typed_during_a_reply_is_said_next(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    first = {"pieces": ["一", "二", "三", "四", "五"], "delay": 0.3}
    child = terminal("chat", story, "--model", script(first, "轮到第二句"))
    child.expect("› ")
    child.send("第一句" + ENTER)
    child.expect("一")
    child.send("第二句" + ENTER)
    child.expect("已排队：第二句")
    child.expect(echo("第二句"))
    child.expect("轮到第二句")
    assert leave(child) == 0
    assert [line["content"] for line in lines(story)[1:]] == ["第一句", "一二三四五", "第二句", "轮到第二句"]


def test_arrow_up_finds_what_was_typed_in_an_earlier_chat(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    model = script("好", loop=True)
    child = terminal("chat", story, "--model", model)
    child.expect("› ")
    child.send("记住这句" + ENTER)
    child.expect(echo("记住这句"))
    child.expect("好")
    assert leave(child) == 0
    child = terminal("chat", story, "--model", model)
    child.expect("› ")
    child.send(UP)
    child.expect("记住这句")
    child.send(ENTER)
    child.expect("Alserqi.*好")
    assert leave(child) == 0
    assert [line["content"] for line in lines(story) if line.get("role") == "user"] == ["记住这句"] * 2


def test_a_history_that_cannot_be_written_is_no_trouble(
    terminal: Terminal, story: str, script: Script, tmp_path: Path
) -> None:
    (tmp_path / "blocked").write_text("", encoding="utf-8")
    child = terminal("chat", story, "--model", script("好的呀"), XDG_STATE_HOME=str(tmp_path / "blocked"))
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect("好的呀")
    assert leave(child) == 0


def test_pasted_lines_are_one_input(terminal: Terminal, story: str, script: Script, lines: Lines) -> None:
    child = terminal("chat", story, "--model", script("收到"))
    child.expect("› ")
    child.send("\x1b[200~第一行\n第二行\x1b[201~" + ENTER)
    child.expect("收到")
    assert leave(child) == 0
    assert lines(story)[1]["content"] == "第一行\n第二行"


def test_an_unanswered_turn_is_told_and_retried(
    terminal: Terminal, personalab: Run, story: str, script: Script, lines: Lines
) -> None:
    personalab("say", story, "在吗", "--model", script({"error": "provider.failed"}))
    child = terminal("chat", story, "--model", script("我在"))
    child.expect("/retry")
    child.expect("› ")
    child.send("/retry" + ENTER)
    child.expect("我在")
    assert leave(child) == 0
    assert [line["role"] for line in lines(story)[1:]] == ["user", "assistant", "assistant"]


def test_slash_commands_show_and_set(terminal: Terminal, story: str, services: Services) -> None:
    child = terminal("chat", story)
    child.expect("› ")
    for typed, shown in (
        ("/help", "/outline"),
        ("/prompt", "base_persona"),
        ("/settings", "max_total_tokens"),
        ("/settings summary_last_n_turns 50", "1–20"),
        ("/stop", "没有正在进行的回复"),
        ("/dance", "没有命令 /dance"),
        ("/settings language en", "Saved"),
    ):
        child.send(typed + ENTER)
        child.expect(shown)
    child.send("/quit" + ENTER)
    child.expect("Goodbye")
    child.expect(pexpect.EOF)
    assert services.preferences.language() == "en"


def test_a_reply_cannot_steer_the_terminal(terminal: Terminal, story: str, script: Script) -> None:
    child = terminal("chat", story, "--model", script("红\x1b]0;stolen\x07色"))
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect("红\ufffd\\]0;stolen\ufffd色")
    assert leave(child) == 0


def test_leaving_during_a_reply_closes_its_line(
    terminal: Terminal, story: str, script: Script, lines: Lines
) -> None:
    child = terminal("chat", story, "--model", script(slow("说到一半")))
    child.expect("› ")
    child.send("你好" + ENTER)
    child.expect("说到一半")
    assert leave(child) == 0
    assert lines(story)[-1]["interrupted"] is True


def test_a_pipe_may_say_every_command_of_the_help(personalab: Run, story: str) -> None:
    done = personalab("chat", story, typed="/stop\n/help\n/outline\n/settings\n/dance\n")
    assert (done.returncode, done.stdout.count("没有命令")) == (0, 1)
    assert "没有正在进行的回复" in done.stdout
    assert "上一轮失败或中断时重新回答" in done.stdout


def test_lines_of_a_pipe_are_played(personalab: Run, story: str, script: Script) -> None:
    done = personalab("chat", story, "--model", script("甲", "乙"), typed="一\n\n二\n/quit\n三\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "甲\n乙\n", "")


def test_a_pipe_with_no_story_begins_one(personalab: Run, script: Script) -> None:
    done = personalab("chat", "--model", script("你好"), typed="你好\n")
    assert (done.returncode, done.stdout) == (0, "你好\n")
    listed = json.loads(personalab("library", "--json").stdout)["instances"]
    assert [(entry["character_id"], entry["background_id"]) for entry in listed] == [
        ("char_alserqi", "bg_wasteland")
    ]


def test_a_pipe_with_several_stories_must_name_one(personalab: Run, story: str) -> None:
    personalab("new", "--character", "char_maren")
    done = personalab("chat", typed="hello\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "inst_002" in done.stderr


def test_a_pipe_stops_at_the_first_turn_that_fails(personalab: Run, story: str, script: Script) -> None:
    done = personalab("chat", story, "--model", script({"error": "provider.failed"}, "乙"), typed="一\n二\n")
    assert done.returncode == 1
    assert "乙" not in done.stdout
