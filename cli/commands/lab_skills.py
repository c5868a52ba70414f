"""Commands that show, edit, tag, import and export skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.commands.lab_options import (
    Asset,
    Author,
    Content,
    ContentFile,
    Description,
    Expected,
    Kind,
    KindOption,
    LabModel,
    Name,
    NeededPurpose,
    Overwrite,
    Provider,
    Purpose,
    Skill,
    SkillType,
    Source,
    given,
)
from cli.commands.options import AsJson
from cli.running import wait_for

skill = typer.Typer(help="One skill / 单个技能", no_args_is_help=True, rich_markup_mode="rich")
tag = typer.Typer(help="Tags of skills and baselines / 标签", no_args_is_help=True, rich_markup_mode="rich")
Type = Annotated[SkillType | None, typer.Option("--type", help="A skill or an agent / 类型")]
Values = Annotated[list[str], typer.Argument(metavar="TAG...", help="Tags, by value or id / 标签")]
SomeValues = Annotated[
    list[str] | None, typer.Argument(metavar="[TAG...]", help="Tags, by value or id / 标签")
]
AllTags = Annotated[bool, typer.Option("--all", help="All that wait / 所有待定的")]


def samples(json: AsJson = False) -> None:
    """Bring the samples that are missing / 装入缺少的示例"""
    from cli.lab.skills import install_samples

    wait_for(install_samples(as_json=json))


@skill.command("show")
def show(
    word: Skill,
    version: Annotated[
        str | None, typer.Option("--version", metavar="vN", help="Not the newest / 指定版本")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show a skill / 查看技能"""
    from cli.lab.skills import show_skill

    wait_for(show_skill(word, version, as_json=json))


@skill.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called / 名称")],
    purpose: NeededPurpose,
    content: Content = None,
    file: ContentFile = None,
    provider: Provider = None,
    kind: Type = None,
    description: Description = None,
    author: Author = None,
    source: Source = None,
    json: AsJson = False,
) -> None:
    """Keep a new skill / 新建技能"""
    from cli.lab.skills import new_skill

    fields = given(
        purpose=purpose, provider=provider, type=kind, description=description, author=author, source=source
    )
    wait_for(new_skill(name, content, file, dict(fields), as_json=json))


@skill.command("edit")
def edit(
    word: Skill,
    content: Content = None,
    file: ContentFile = None,
    name: Name = None,
    purpose: Purpose = None,
    provider: Provider = None,
    kind: Type = None,
    description: Description = None,
    author: Author = None,
    source: Source = None,
    expect: Expected = None,
    json: AsJson = False,
) -> None:
    """Make the next version of a skill / 修改技能（生成新版本）"""
    from cli.lab.skills import edit_skill

    fields = given(
        name=name, purpose=purpose, provider=provider, type=kind, description=description,
        author=author, source=source,
    )  # fmt: skip
    wait_for(edit_skill(word, content, file, dict(fields), expect, as_json=json))


@skill.command("diff")
def diff(
    word: Skill,
    before: Annotated[
        str | None, typer.Argument(metavar="[FROM]", help="A version, e.g. v1 / 起始版本")
    ] = None,
    after: Annotated[str | None, typer.Argument(metavar="[TO]", help="Else the newest / 结束版本")] = None,
    json: AsJson = False,
) -> None:
    """Compare two versions, else the last two / 比较两个版本"""
    from cli.lab.skills import show_diff

    wait_for(show_diff(word, before, after, as_json=json))


@skill.command("archive")
def archive(word: Skill, json: AsJson = False) -> None:
    """Put a skill away / 归档技能"""
    from cli.lab.skills import archive_skill

    wait_for(archive_skill(word, archived=True, as_json=json))


@skill.command("unarchive")
def unarchive(word: Skill, json: AsJson = False) -> None:
    """Bring a skill back / 取消归档"""
    from cli.lab.skills import archive_skill

    wait_for(archive_skill(word, archived=False, as_json=json))


@skill.command("import")
def bring_in(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="A folder with SKILL.md, a .md or .txt file, a promptfoo configuration / 要导入的文件夹或文件",
        ),
    ],
    purpose: Purpose = None,
    provider: Provider = None,
    name: Name = None,
    json: AsJson = False,
) -> int:
    """Bring skills in / 导入技能

    Each path comes in whole or not at all. One that cannot be read does not keep the others out; the exit code is
    1 then. / 每个路径要么完整导入，要么不导入；有失败时退出码为 1。
    """
    from cli.lab.skills import import_skills

    return wait_for(import_skills(paths, purpose, provider, name, as_json=json))


@skill.command("export")
def export(
    word: Skill,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Its folder is made in here / 目标目录")
    ] = Path(),
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="BASELINE", help="As its evals / 作为 evals 一并导出")
    ] = None,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Write a skill as a folder with SKILL.md / 导出技能"""
    from cli.lab.skills import export_skill

    wait_for(export_skill(word, out, baseline, overwrite=overwrite, as_json=json))


@skill.command("from-character")
def from_character(
    character: Annotated[
        str, typer.Argument(metavar="CHARACTER", help="Its id, see `personalab library` / 角色的 ID")
    ],
    json: AsJson = False,
) -> None:
    """Put a character's persona on the bench / 把角色的人设变成技能"""
    from cli.lab.skills import from_character as bring

    wait_for(bring(character, as_json=json))


@skill.command("to-character")
def to_character(
    word: Skill,
    character: Annotated[str, typer.Argument(metavar="CHARACTER", help="Its id / 角色的 ID")],
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Make a skill who a character is / 把技能变成角色的人设"""
    from cli.lab.skills import to_character as send

    wait_for(send(word, character, overwrite=overwrite, as_json=json))


def promptfoo(
    skills: Annotated[
        list[str], typer.Option("--skill", metavar="SKILL", help="Once for each / 技能，可多次")
    ],
    baseline: Annotated[str, typer.Option("--baseline", metavar="BASELINE", help="Its tests / 测试基线")],
    model: Annotated[
        str, typer.Option("--model", metavar="ID", help="promptfoo's id of a provider / promptfoo 的模型名")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new folder / 目标目录")],
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Write skills and a baseline as a promptfoo configuration / 导出为 promptfoo 配置"""
    from cli.lab.skills import export_promptfoo

    wait_for(export_promptfoo(skills, baseline, out, model, overwrite=overwrite, as_json=json))


# --- tags


@tag.command("list")
def list_tags(word: Asset, kind: KindOption = None, json: AsJson = False) -> None:
    """Show the tags of a skill or a baseline / 查看标签"""
    from cli.lab.tags import show_tags

    wait_for(show_tags(word, kind, as_json=json))


@tag.command("add")
def add(word: Asset, values: Values, kind: KindOption = None, json: AsJson = False) -> None:
    """Add tags / 添加标签"""
    from cli.lab.tags import change_tags

    wait_for(change_tags(word, kind, values, adding=True, as_json=json))


@tag.command("remove")
def remove(word: Asset, values: Values, kind: KindOption = None, json: AsJson = False) -> None:
    """Remove tags / 移除标签"""
    from cli.lab.tags import change_tags

    wait_for(change_tags(word, kind, values, adding=False, as_json=json))


@tag.command("auto")
def auto(word: Asset, kind: KindOption = None, model: LabModel = None, json: AsJson = False) -> None:
    """Let a model propose tags; each waits for your word / 由模型提议标签"""
    from cli.lab.tags import auto_tag

    wait_for(auto_tag(word, kind, model, as_json=json))


@tag.command("approve")
def approve(
    word: Asset,
    values: SomeValues = None,
    everything: AllTags = False,
    kind: KindOption = None,
    json: AsJson = False,
) -> None:
    """Accept tags that a model proposed / 接受模型提议的标签"""
    from cli.lab.tags import judge_tags

    work = judge_tags(word, kind, values or [], approving=True, everything=everything, as_json=json)
    wait_for(work)


@tag.command("reject")
def reject(
    word: Asset,
    values: SomeValues = None,
    everything: AllTags = False,
    kind: KindOption = None,
    json: AsJson = False,
) -> None:
    """Refuse tags that a model proposed / 拒绝模型提议的标签"""
    from cli.lab.tags import judge_tags

    work = judge_tags(word, kind, values or [], approving=False, everything=everything, as_json=json)
    wait_for(work)


@tag.command("batch")
def batch(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ASSET...]", help="Else all that have no tag / 不填则为所有没有标签的"),
    ] = None,
    kind: Annotated[Kind, typer.Option("--kind", help="Skills or baselines / 技能或基线")] = "skill",
    model: LabModel = None,
    json: AsJson = False,
) -> int:
    """Let a model propose tags for many / 批量提议标签"""
    from cli.lab.tags import batch as tag_many

    return wait_for(tag_many(words or [], kind, model, as_json=json))
