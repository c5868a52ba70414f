"""Command line options that every server shares."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from personalab.errors import PersonaLabError, UserError
from personalab.services import Services, tracing_notice
from personalab.serving.places import MAX_TURNS
from personalab.settings import spoken_language

DEFAULT_PORT = 8765


class Parser(argparse.ArgumentParser):
    """Refuses in one sentence, as every entrance does."""

    def error(self, message: str) -> NoReturn:
        """Refuse."""
        raise UserError("bad_usage", reason=message)


def server_options(name: str, description: str) -> Parser:
    """Describe the options that every server has."""
    parser = Parser(prog=f"python -m {name}", description=description)
    parser.add_argument(
        "--toolsets", default="chat,memory", help="chat, memory, archive, lab (default: chat,memory) / 工具集"
    )
    parser.add_argument(
        "--max-turns",
        type=_number("--max-turns", 1, 10_000),
        default=MAX_TURNS,
        help="turns at once / 同时进行的轮次",
    )
    parser.add_argument("--debug", action="store_true", help="log more, to stderr / 更多日志")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address; others than loopback need PERSONALAB_TOKEN / 地址"
    )
    parser.add_argument(
        "--port", type=_number("--port", 0, 65_535), default=DEFAULT_PORT, help="0 takes a free one / 端口"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], help="a name clients may use / 允许的主机名"
    )
    return parser


def _number(name: str, low: int, high: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 9 and low <= int(text) <= high):
            raise UserError("setting_out_of_range", field=name, value=text[:40], range=f"{low}–{high}")
        return int(text)

    return whole


def toolsets_of(options: argparse.Namespace) -> list[str]:
    """Read the names of the toolsets."""
    return [name.strip() for name in options.toolsets.split(",") if name.strip()]


def show_tracing_notice(services: Services) -> None:
    """Print on stderr, when a server starts, what tracing sends to other machines."""
    if notice := tracing_notice(services):
        sys.stderr.write(f"{notice}\n")
        sys.stderr.flush()


def run_program(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    serve: Callable[[argparse.Namespace], None],
) -> int:
    """Run a server; return the exit code: 2 for bad usage or input, 1 for anything else that went wrong."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after 2>&-)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")
    try:
        serve(parser.parse_args(arguments))
    except PersonaLabError as error:
        sys.stderr.write(f"{error.message(spoken_language())}\n")
        return 2 if isinstance(error, UserError) else 1
    except KeyboardInterrupt:
        return 130
    return 0
