"""Suggested actions, named as each entrance offers them: commands, places of the page, tools.

A text names one as ``{do:name}``. Placeholders of an action are filled with the parameters of the text around it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

from personalab.texts.forms import Text

Entrance = Literal["terminal", "page", "mcp"]
ENTRANCES: tuple[Entrance, ...] = ("terminal", "page", "mcp")


class Action(NamedTuple):
    """What a person can do, as each entrance names it."""

    terminal: Text
    page: Text
    mcp: Text


_current: ContextVar[Entrance] = ContextVar("entrance", default="terminal")


@contextmanager
def rendering_for(entrance: Entrance) -> Generator[None]:
    """Name actions as an entrance does, in this call and in the tasks that it starts.

    A context variable, because one process serves the page and MCP from the same services.
    """
    token = _current.set(entrance)
    try:
        yield
    finally:
        _current.reset(token)


def action_text(name: str) -> Text:
    """Return the words of an action at the entrance of the current call."""
    return getattr(ACTIONS[name], _current.get())


def _action(terminal: str, page: tuple[str, str], mcp: str) -> Action:
    return Action(Text(terminal, terminal), Text(*page), Text(mcp, mcp))


def _terminal_only(command: str) -> Action:
    return _action(command, (command, command), command)


_LAB = ("实验室", "the lab")
_MEMORY = ("“记忆”页", "the memory page")

ACTIONS: dict[str, Action] = {
    # --- stories
    "stop": _action(
        "personalab stop {instance_id}", ("“⏹ 停止”", "“⏹ Stop”"), 'persona_stop(instance_id="{instance_id}")'
    ),
    "undo_summary": _action(
        "personalab summarize {instance_id} --undo",
        ("“📝 汇总”", "“📝 Sum up”"),
        'persona_summarize(instance_id="{instance_id}", undo=true)',
    ),
    "list_library": _action("personalab library", ("故事库", "the library"), "persona_library"),
    "new_story": _action("personalab new", ("“新故事”", "“New story”"), "persona_new_instance"),
    "switch_background": _action(
        "personalab switch-background",
        ("对话的 ⋯ 菜单", "the ⋯ menu of its chat"),
        "persona_switch_background",
    ),
    "reset_settings": _action(
        "personalab settings reset", ("“恢复默认”", "“Restore defaults”"), "persona_settings(reset=true)"
    ),
    "doctor": _terminal_only("personalab doctor"),
    "doctor_fix": _terminal_only("personalab doctor --fix"),
    "reindex": _terminal_only("personalab reindex"),
    # --- memories
    "list_memories": _action("personalab memory list", _MEMORY, 'persona_library(kind="characters")'),
    "get_memory": _action("personalab memory get {agent_id}", _MEMORY, 'memory_get(agent_id="{agent_id}")'),
    "memory_history": _action(
        "personalab memory history {agent_id}", _MEMORY, 'memory_get(agent_id="{agent_id}", history=true)'
    ),
    "undo_memory": _action(
        "personalab memory undo {agent_id}", _MEMORY, 'memory_edit(agent_id="{agent_id}", action="undo")'
    ),
    "list_conversations": Action(
        Text("personalab memory conversations 角色", "personalab memory conversations AGENT"),
        Text(*_MEMORY),
        Text("memory_search", "memory_search"),
    ),
    # --- archives
    "archive": _terminal_only("personalab archive"),
    "archive_backups": _terminal_only("personalab archive backups"),
    "archive_compact": Action(
        Text("personalab archive compact 会话", "personalab archive compact SESSION"),
        Text("personalab archive compact 会话", "personalab archive compact SESSION"),
        Text("archive_compact", "archive_compact"),
    ),
    "archive_entries": _terminal_only("personalab archive entries"),
    "archive_new": _terminal_only("personalab archive new"),
    "archive_restore": _terminal_only("personalab archive restore"),
    "archive_undelete": _terminal_only("personalab archive undelete"),
    # --- the lab
    "list_skills": _action("personalab lab skills", _LAB, "skill_list"),
    "list_baselines": _action("personalab lab baselines", _LAB, "baseline_list"),
    "list_projects": _action("personalab lab projects", _LAB, "project_status"),
    "run_project": _action("personalab lab run", ("“运行”", "“Run”"), "project_run"),
    "rerun_failed": _action(
        "personalab lab run --rerun-failed",
        ("“重跑失败项”", "“Run failed ones again”"),
        "project_run(rerun_failed=true)",
    ),
    "pause_project": _action("personalab lab pause", ("“暂停”", "“Pause”"), "project_run(pause=true)"),
    "analyse": _action("personalab lab analyse", ("“分析优势”", "“Find out why”"), "analysis_run"),
    "recompose": _action(
        "personalab lab recompose",
        ("personalab lab recompose", "personalab lab recompose"),
        "skill_recompose",
    ),
    "iterate": _action("personalab lab iterate", ("“迭代”", "“Search”"), "iteration_start"),
    "fresh_iteration": Action(
        Text("--fresh（fresh）", "--fresh (fresh)"),
        Text("“重新开始”", "“Begin anew”"),
        Text("fresh=true ", "fresh=true"),
    ),
    "max_rounds": _action("--rounds", ("“最多轮数”", "“Most rounds”"), "max_rounds"),
    "chat_model": _action(
        "--model openai:gpt-4o-mini", ("openai:gpt-4o-mini", "openai:gpt-4o-mini"), "model=openai:gpt-4o-mini"
    ),
    "set_lab_cli": _terminal_only("personalab lab cli set"),
}
