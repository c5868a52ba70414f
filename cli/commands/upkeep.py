"""Maintenance commands for the data root: ``reindex`` and ``doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.options import AsJson
from cli.running import services, wait_for


def reindex(json: AsJson = False) -> int:
    """Rebuild the event library from the sessions / 重建事件库"""
    from cli.upkeep import rebuild

    return wait_for(rebuild(services(), as_json=json))


def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Repair what can be repaired / 修复")] = False,
    json: AsJson = False,
) -> int:
    """Check every file of the data root / 检查数据目录里的每个文件"""
    from cli.upkeep import examine

    return wait_for(examine(services(), fix=fix, as_json=json))
