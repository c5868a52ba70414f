"""Commands for Veloca archives: conversations in one JSON file that any program can read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli.commands.options import AsJson, Model
from cli.running import wait_for

app = typer.Typer(
    help="Conversations in one file (Veloca) / 单文件对话存档（Veloca）",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
Role = Literal["user", "assistant", "system"]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", metavar="PATH", help="This archive instead of the data root's / 指定存档文件"
    ),
]
Session = Annotated[
    str,
    typer.Argument(metavar="SESSION", help="Its id, or the first 8 characters, see `sessions` / 会话的 ID"),
]
EntryId = Annotated[
    str,
    typer.Argument(metavar="ENTRY", help="Its id, or the first 8 characters, see `entries` / 消息的 ID"),
]
AnyId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Of a session, an entry or a summary / 会话、消息或摘要的 ID"),
]
Everything = Annotated[bool, typer.Option("--all", "-a", help="Deleted ones, too / 包括已删除的")]


@app.command("sessions")
def sessions(file: File = None, everything: Everything = False, json: AsJson = False) -> None:
    """List the sessions / 列出会话"""
    from cli.archive import opened, show_sessions

    wait_for(show_sessions(opened(file), everything=everything, as_json=json))


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called / 会话名称")],
    file: File = None,
    json: AsJson = False,
) -> None:
    """Begin a session / 新建会话"""
    from cli.archive import begin_session, opened

    wait_for(begin_session(opened(file), name, as_json=json))


@app.command("entries")
def entries(
    session: Session, file: File = None, everything: Everything = False, json: AsJson = False
) -> None:
    """Show the entries of a session / 查看会话的消息"""
    from cli.archive import opened, show_entries

    wait_for(show_entries(opened(file), session, everything=everything, as_json=json))


@app.command("append")
def append(
    session: Session,
    role: Annotated[Role, typer.Argument(metavar="ROLE", help="user, assistant or system / 角色")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What was said; - reads stdin / 内容")],
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=0, help="The tokens it used / 消耗的 token 数")
    ] = 0,
    tools: Annotated[
        str | None,
        typer.Option("--tools", metavar="FILE", help="A JSON file of its tool calls / 工具调用（JSON 文件）"),
    ] = None,
    file: File = None,
    json: AsJson = False,
) -> None:
    """Write an entry at the end of a session / 追加一条消息

    The file of --tools holds {"tool_calls": [{"id": …, "type": "function", "function": {"name": …, "arguments": …}}]}.
    """
    from cli.archive import append_entry, opened

    work = append_entry(opened(file), session, role, text, tokens=tokens, tools=tools, as_json=json)
    wait_for(work)


@app.command("edit")
def edit(
    entry: EntryId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The new words; - reads stdin / 新的内容")],
    file: File = None,
    json: AsJson = False,
) -> None:
    """Word an entry differently / 修改一条消息"""
    from cli.archive import edit_entry, opened

    wait_for(edit_entry(opened(file), entry, text, as_json=json))


@app.command("delete")
def delete(record: AnyId, file: File = None, json: AsJson = False) -> None:
    """Mark something as deleted; it stays in the file / 标记为删除（文件中保留）"""
    from cli.archive import mark, opened

    wait_for(mark(opened(file), record, deleted=True, as_json=json))


@app.command("undelete")
def undelete(record: AnyId, file: File = None, json: AsJson = False) -> None:
    """Bring something back that was deleted / 恢复已删除的"""
    from cli.archive import mark, opened

    wait_for(mark(opened(file), record, deleted=False, as_json=json))


@app.command("context")
def context(session: Session, file: File = None, json: AsJson = False) -> None:
    """Show what a model should see of a session / 模型应看到的内容"""
    from cli.archive import opened, show_context

    wait_for(show_context(opened(file), session, as_json=json))


@app.command("tokens")
def tokens(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="Only of this one / 只看这个会话")
    ] = None,
    file: File = None,
    json: AsJson = False,
) -> None:
    """Sum up the tokens that were used / 统计消耗的 token"""
    from cli.archive import opened, show_tokens

    wait_for(show_tokens(opened(file), session, as_json=json))


@app.command("compact")
def compact(
    session: Session,
    summary: Annotated[
        str | None, typer.Option("--summary", metavar="TEXT", help="Your own; - reads stdin / 自己写的摘要")
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option("--trigger", metavar="ENTRY", help="Sum up what stands before it / 压缩它之前的消息"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it / 只预览")] = False,
    model: Model = None,
    file: File = None,
    json: AsJson = False,
) -> int:
    """Turn the old entries of a session into a summary / 把较早的消息压缩成摘要"""
    from cli.archive import compact_session, opened

    work = compact_session(
        opened(file), session, summary=summary, trigger=trigger, dry_run=dry_run, model=model, as_json=json
    )
    return wait_for(work)


@app.command("undo")
def undo(
    record: Annotated[
        str,
        typer.Argument(
            metavar="SESSION|SUMMARY",
            help="A session (its last one is undone), or a summary's id / 会话或摘要的 ID",
        ),
    ],
    file: File = None,
    json: AsJson = False,
) -> None:
    """Take a compaction back / 撤销压缩"""
    from cli.archive import opened, undo_compaction

    wait_for(undo_compaction(opened(file), record, as_json=json))


@app.command("verify")
def verify(file: File = None, json: AsJson = False) -> int:
    """Check the file, its journal and its backups / 检查存档、日志和备份"""
    from cli.archive import opened, verify_archive

    return wait_for(verify_archive(opened(file), as_json=json))


@app.command("fold")
def fold(file: File = None, json: AsJson = False) -> None:
    """Write what stands in the journal into the file / 把日志合并进存档文件"""
    from cli.archive import fold_journal, opened

    wait_for(fold_journal(opened(file), as_json=json))


@app.command("backups")
def backups(file: File = None, json: AsJson = False) -> None:
    """List the backups, the newest first / 列出备份"""
    from cli.archive import opened, show_backups

    wait_for(show_backups(opened(file), as_json=json))


@app.command("restore")
def restore(
    backup: Annotated[
        int | None,
        typer.Option("--backup", metavar="N", min=1, help="Go back to this one / 回到第几个备份"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask / 不再确认")] = False,
    file: File = None,
    json: AsJson = False,
) -> int:
    """Make a broken file whole, or go back to a backup / 修复损坏的存档，或回到某个备份

    Without --backup, a file that is broken is made again with everything that was written, and one that is whole is
    left alone. With --backup N, the archive becomes what that backup is: what was written or deleted since is gone
    from it. What stood there is set aside in either case.

    不加 --backup：重建损坏的文件，写入过的一切都在；完好的文件不动。
    加 --backup N：存档变回那个备份的样子，此后写入或删除的都不再算数。原来的文件都会留在旁边。
    """
    from cli.archive import opened, restore_archive

    return restore_archive(opened(file), backup, yes=yes, as_json=json)
