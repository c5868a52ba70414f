"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Instance = Annotated[
    str, typer.Argument(metavar="INSTANCE", help="The story's id, see `library` / 故事的 ID")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON / 输出 JSON")]
Model = Annotated[
    str | None, typer.Option("--model", metavar="PROVIDER:MODEL", help="Answer with this model / 指定模型")
]
Reasoning = Annotated[
    bool, typer.Option("--reasoning", help="Show what the model thought / 显示模型的思考过程")
]
