"""Commands that show and change what characters remember about people."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.commands.options import AsJson, Model
from cli.running import services, wait_for

app = typer.Typer(
    help="What characters know about you / 角色对你的了解", no_args_is_help=True, rich_markup_mode="rich"
)
Kind = Literal["profile", "event", "mind"]
Agent = Annotated[
    str, typer.Argument(metavar="AGENT", help="Who remembers, e.g. a character's id / 谁的记忆，例如角色 ID")
]
User = Annotated[
    str | None, typer.Option("--user", "-u", metavar="USER", help="About whom; else the player / 关于谁")
]
Count = Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="At most so many / 条数")]
EntryId = Annotated[
    str, typer.Argument(metavar="ENTRY", help="Its id, or the beginning of it, see `get` / 条目的 ID")
]


@app.command("list")
def list_all(json: AsJson = False) -> None:
    """List who knows something about whom / 列出所有记忆"""
    from cli.memory import show_names

    wait_for(show_names(services(), as_json=json))


@app.command("get")
def get(agent: Agent, user: User = None, json: AsJson = False) -> None:
    """Show what is known / 查看记忆"""
    from cli.memory import show_memory

    wait_for(show_memory(services(), agent, user, as_json=json))


@app.command("search")
def search(
    agent: Agent,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for / 要找什么")],
    user: User = None,
    conversations: Annotated[
        bool, typer.Option("--conversations", help="Search what was said / 搜索对话")
    ] = False,
    kind: Annotated[Kind | None, typer.Option("--type", help="Only this list / 只找这一类")] = None,
    count: Count = 10,
    json: AsJson = False,
) -> None:
    """Search what is known, or what was said / 搜索记忆或对话"""
    from cli.memory import show_found

    work = show_found(services(), agent, user, query, kind, count, conversations, as_json=json)
    wait_for(work)


@app.command("save")
def save(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A JSON request; - reads stdin / JSON 文件，- 为标准输入")
    ],
    learn: Annotated[bool, typer.Option("--learn", help="Learn from it at once / 随即学习")] = False,
    model: Model = None,
    json: AsJson = False,
) -> int:
    """Save a conversation / 保存一段对话

    FILE holds {"agent_id": …, "user_id": …, "messages": [{"role": "user", "content": …}, …]}.
    """
    from cli.memory import save_file

    return wait_for(save_file(services(), file, learn=learn, model=model, as_json=json))


@app.command("learn")
def learn(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id / 对话的 ID")],
    again: Annotated[
        bool, typer.Option("--again", help="Also if it was learned from / 学过也再学一次")
    ] = False,
    model: Model = None,
    json: AsJson = False,
) -> int:
    """Learn from a saved conversation / 从保存的对话中学习"""
    from cli.memory import learn_from

    call = {"conversation_id": conversation, "again": again}
    return wait_for(learn_from(services(), call, model=model, as_json=json))


@app.command("conversations")
def conversations(agent: Agent, user: User = None, count: Count = 20, json: AsJson = False) -> None:
    """List saved conversations, the newest first / 列出保存的对话"""
    from cli.memory import show_conversations

    wait_for(show_conversations(services(), agent, user, count, as_json=json))


@app.command("conversation")
def conversation(
    conversation_id: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id / 对话的 ID")],
    json: AsJson = False,
) -> None:
    """Show a saved conversation / 查看一段对话"""
    from cli.memory import show_conversation

    wait_for(show_conversation(services(), conversation_id, as_json=json))


@app.command("add")
def add(
    agent: Agent,
    kind: Annotated[Kind, typer.Argument(metavar="LIST", help="profile, event or mind / 哪一类")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember / 要记住的话")],
    user: User = None,
    json: AsJson = False,
) -> None:
    """Write something down by hand / 手动记下一条"""
    from cli.memory import change_by_hand
    from personalab.operations.memory import add_entry

    wait_for(change_by_hand(services(), agent, user, add_entry, kind, text, as_json=json))


@app.command("edit")
def edit(
    agent: Agent,
    entry: EntryId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new words / 新的内容")],
    user: User = None,
    json: AsJson = False,
) -> None:
    """Word an entry differently / 修改一条"""
    from cli.memory import change_by_hand
    from personalab.operations.memory import edit_entry

    wait_for(change_by_hand(services(), agent, user, edit_entry, entry, text, as_json=json))


@app.command("remove")
def remove(agent: Agent, entry: EntryId, user: User = None, json: AsJson = False) -> None:
    """Take an entry out; the history keeps it / 删除一条（历史中保留）"""
    from cli.memory import change_by_hand
    from personalab.operations.memory import remove_entry

    wait_for(change_by_hand(services(), agent, user, remove_entry, entry, as_json=json))


@app.command("history")
def history(agent: Agent, user: User = None, count: Count = 20, json: AsJson = False) -> None:
    """Show what changed, and why / 查看改动的历史"""
    from cli.memory import show_history

    wait_for(show_history(services(), agent, user, count, as_json=json))


@app.command("undo")
def undo(agent: Agent, user: User = None, json: AsJson = False) -> None:
    """Take the last change back / 撤销最近一次改动"""
    from cli.memory import change_by_hand
    from personalab.operations.memory import undo_change

    wait_for(change_by_hand(services(), agent, user, undo_change, as_json=json))


@app.command("forget")
def forget(
    agent: Agent,
    user: User = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask / 不再确认")] = False,
    json: AsJson = False,
) -> int:
    """Forget everything about someone, for good / 彻底忘记一个人"""
    from cli.memory import forget_all

    return forget_all(services(), agent, user, yes=yes, as_json=json)
