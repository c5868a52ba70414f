"""Commands that import files of other programs and export stories, characters, backgrounds and lorebooks."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from cli.commands.options import AsJson, Reasoning
from cli.running import Refusal, services, wait_for

Format = Literal[
    "veloca",
    "markdown",
    "text",
    "sillytavern",
    "card-json",
    "card-png",
    "charx",
    "lorebook",
    "world-info",
    "background",
]


def bring_in(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, or folders with files / 文件或文件夹")
    ],
    character: Annotated[
        str | None,
        typer.Option("--character", "-c", metavar="ID", help="Whose chats these are / 聊天属于哪个角色"),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="ID", help="Who gets the lorebook / 世界书给哪个角色或背景", show_default=False
        ),
    ] = None,
    new_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id of what comes in / 导入后的 ID")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace what has the name or --id; never a story / 覆盖同名或 --id 指定的（故事除外）",
        ),
    ] = False,
    update: Annotated[
        bool,
        typer.Option(
            "--update", help="Update the character whose id a card carries / 用角色卡更新它所带 ID 的角色"
        ),
    ] = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="Import such a card as another character / 另存为新角色")
    ] = False,
    json: AsJson = False,
) -> int:
    """Bring in cards, worlds, lorebooks, chats and Veloca files / 导入角色卡、背景、世界书、聊天记录和 Veloca 文件

    The format is told by the content. A file that cannot come in is listed with the reason, the others come in.
    """
    from cli.exchange import import_paths
    from personalab.operations.imports import ImportOptions

    if update and copy:
        raise Refusal("not_together", names="--update, --copy")
    wishes = ImportOptions(
        character, into, new_id, overwrite, "update" if update else "copy" if copy else None
    )
    return wait_for(import_paths(services(), paths, wishes, as_json=json))


def send_out(
    entry: Annotated[
        str, typer.Argument(metavar="ID", help="A story, a character or a background / 故事、角色或背景的 ID")
    ],
    format: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", metavar="FORMAT", help="Else veloca, card-png, or lorebook or background / 格式"
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="PATH", help="A file or folder; - is stdout / 文件或文件夹，- 为标准输出"
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="One session of the story / 会话")
    ] = None,
    card_version: Annotated[
        Literal["v1", "v2", "v3"] | None,
        typer.Option("--card-version", help="Else as it came / 角色卡的版本"),
    ] = None,
    markers: Annotated[
        bool,
        typer.Option(
            "--markers", help="Show [PROGRESS:…] markers in transcripts and chats / 保留回复中的进度标记"
        ),
    ] = False,
    reasoning: Reasoning = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that exists / 覆盖已有的文件")
    ] = False,
    json: AsJson = False,
) -> None:
    """Write a story, a character, a world or a lorebook to a file / 导出故事、角色卡、背景或世界书

    Stories: veloca, markdown, text, sillytavern. Characters: card-png, card-json, charx, lorebook, world-info.
    Backgrounds: lorebook, world-info, background. `characters/ID` tells those that share an id apart.
    """
    from cli.exchange import export_to

    work = export_to(
        services(),
        entry,
        format,
        out,
        session,
        card_version,
        markers=markers,
        reasoning=reasoning,
        overwrite=overwrite,
        as_json=json,
    )
    wait_for(work)
