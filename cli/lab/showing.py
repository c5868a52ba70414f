"""Output helpers that the commands of the lab share: assets, numbers, progress."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cli.output import (
    BOLD,
    CYAN,
    DIM,
    YELLOW,
    ProgressLine,
    columns,
    masked,
    note,
    one_line,
    paint,
    write,
    write_json,
)
from cli.running import DONE, Refusal, language, services
from cli.texts import tell
from cli.turns import error_code

if TYPE_CHECKING:
    from personalab.storage.lab.assets import Stored

SHORT = 8
Event = dict[str, Any]


def short_id(asset_id: str) -> str:
    """Paint the beginning of an id, which the commands take for the whole."""
    return paint(masked(asset_id[:SHORT]), CYAN)


def named(text: object) -> str:
    """Show a name in one line."""
    return masked(one_line(str(text)))


def warned(code: str, /, **params: object) -> None:
    """Print a warning on stderr."""
    note(paint(tell(code, language(), **params), YELLOW, sys.stderr))


async def tell_unread() -> None:
    """Print which skills and baselines are not listed because they cannot be read."""
    for problem in await asyncio.to_thread(services().assets.problems):
        if problem.broken:
            reason = problem.error.message(language())
            warned("lab_unread_asset", name=named(problem.folder), reason=named(reason))


def score(value: float | None) -> str:
    """Write a score."""
    return "–" if value is None else f"{value:.1f}"


def span(ends: Sequence[float] | None) -> str:
    """Write an interval."""
    return f"[{ends[0]:.1f}, {ends[1]:.1f}]" if ends else ""


def money(value: float | None) -> str:
    """Write an amount of money."""
    if value is None:
        return tell("lab_unknown_money", language())
    return f"${value:.4f}" if 0 < value < 1 else f"${value:.2f}"


def padded(text: str, width: int) -> str:
    """Fill a text up to so many columns."""
    return text + " " * max(0, width - columns(text))


def stored_fields(stored: Stored) -> dict[str, Any]:
    """Return an asset as JSON."""
    from personalab.operations.lab.skills import shown

    return {"kind": stored.kind, **shown(stored)}


def show_stored(stored: Stored, code: str, *, as_json: bool) -> None:
    """Print an asset that was made or changed."""
    if as_json:
        write_json(stored_fields(stored))
        return
    meta = stored.meta
    write(tell(code, language(), name=named(meta.name), asset_id=meta.id, version=meta.version))


def asset_row(fields: Mapping[str, Any], details: str) -> str:
    """Lay out an asset as a list shows it."""
    tags = "".join(f" #{named(tag)}" for tag in fields["tags"])
    waiting = "".join(f" ?{named(tag)}" for tag in fields["pending_tags"])
    gone = tell("lab_archived", language()) if fields["status"] == "archived" else ""
    place = f"{fields['version']} {named(fields['purpose'])}/{named(fields['provider'])}"
    rest = paint(f"{place} {details}{gone}".rstrip(), DIM)
    return f"{short_id(fields['id'])} {paint(named(fields['name']), BOLD)} {rest}{tags}{paint(waiting, DIM)}"


def show_meta(meta: Mapping[str, Any], tags: Mapping[str, Any], versions: Sequence[str]) -> None:
    """Print the metadata of an asset."""
    write(paint(named(meta["name"]), BOLD))
    rows = {
        "id": meta["id"],
        "version": f"{meta['version']} ({', '.join(versions[-10:])})",
        "status": meta["status"],
        **{
            name: meta.get(name)
            for name in ("purpose", "provider", "type", "description", "author", "source")
        },
        "updated_at": meta["updated_at"],
        "tags": ", ".join(
            [tag["value"] for tag in tags["manual"]]
            + [tag["value"] for tag in tags["auto"] if tag["status"] == "approved"]
        ),
        "pending_tags": ", ".join(tag["value"] for tag in tags["auto"] if tag["status"] == "pending"),
    }
    for name, value in rows.items():
        if value:
            write(f"{paint(name.ljust(13), DIM)} {named(value)}")


# --- command line arguments


@contextmanager
def as_option(names: Mapping[str, str] | None = None) -> Generator[None]:
    """Blame the command line for a wrong value, not a file: it is not written yet.

    ``names`` tells how options are called; without it the fields keep their names.
    """
    from personalab.errors import BadRecord, UserError

    try:
        yield
    except BadRecord as error:
        if error.code not in ("lab_bad_record", "lab_not_strict"):
            raise
        field, *_ = str(error.params["field"]).split(".") if names is not None else (error.params["field"],)
        shown = str(field) if names is None else names.get(str(field), "--" + str(field).replace("_", "-"))
        raise UserError("lab_bad_option", field=shown, reason=error.params["reason"]) from error


def text_of(text: str | None, file: Path | None) -> str | None:
    """Read a long text from the command line, from stdin for ``-``, or from a file, unchanged."""
    from personalab.lab.formats.skill_md import read_plain
    from personalab.storage.lab.external_folders import read_external_file

    if text is not None and file is not None:
        raise Refusal("not_together", names="--content, --file")
    if file is not None and str(file) != "-":
        return read_plain(read_external_file(file), str(file)).content
    return sys.stdin.read() if text == "-" or file is not None else text


# --- long work


async def follow_lab(work: AsyncGenerator[Any], told: Callable[[Event], str]) -> tuple[Event, int]:
    """Run work to its end with one changing line; return its result and the exit code."""
    progress, code = ProgressLine(), DONE
    result: Event = {}
    try:
        async with aclosing(work) as stream:
            async for part in stream:
                event = cast("Event", part)
                match event.get("type"):
                    case "progress":
                        progress.show(told(event))
                    case "error":
                        code = error_code(event)
                        result = {"error": event}
                    case None:
                        result = event
                    case _:
                        pass
    finally:
        progress.clear()
    return result, code
