"""Terminal output and commands for the settings of the ``claude`` program and its temporary sessions."""

from __future__ import annotations

import asyncio
from typing import Any

from cli.lab.showing import as_option, named
from cli.output import CYAN, DIM, YELLOW, note, paint, write, write_json
from cli.preferences import shown
from cli.running import Refusal, language, services
from cli.texts import tell
from personalab.lab.options import CliSettings
from personalab.services import Services

_CONTEXT = "context."
_FIXED = ("updated_at", "context")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


async def show_settings(*, as_json: bool) -> None:
    """Print ``workspace/cli/config.json``."""
    found = await asyncio.to_thread(services().lab_sessions.settings)
    _show(found, as_json=as_json)


def _show(settings: CliSettings, *, as_json: bool) -> None:
    if as_json:
        write_json(settings.model_dump(mode="json"))
        return
    flat = _flat(settings)
    width = max(map(len, flat))
    for name, value in flat.items():
        found = _found(str(value)) if name == "cli_path" else ""
        write(f"{paint(name.ljust(width), CYAN)}  {named(shown(value))}{found}")


def _found(cli_path: str) -> str:
    """Describe where the program is, or that it was not found."""
    from personalab.providers.claude_cli import find_program

    path = find_program(cli_path)
    if path is None:
        return paint(tell("lab_program_missing", language()), YELLOW)
    return paint(tell("lab_program_found", language(), path=named(path)), DIM) if path != cli_path else ""


def _flat(settings: CliSettings) -> dict[str, Any]:
    whole = settings.model_dump(mode="json")
    known = {name: whole[name] for name in CliSettings.model_fields if name not in _FIXED}
    return {**known, **{_CONTEXT + name: value for name, value in whole["context"].items()}}


async def change_setting(name: str, value: str, *, as_json: bool) -> None:
    """Change one of the settings, or refuse it with what is wrong."""

    def change(root: Services) -> CliSettings:
        settings = root.lab_sessions.settings()
        known = _flat(settings)
        if name not in known:
            raise Refusal("lab_no_setting", name=name[:80], known=", ".join(known))
        typed = _typed(name, value, known[name])
        with as_option():
            if name.startswith(_CONTEXT):
                context = {**settings.context.model_dump(), name.removeprefix(_CONTEXT): typed}
                made = settings.changed(context=context, updated_at=root.now())
            else:
                made = settings.changed(**{name: typed, "updated_at": root.now()})
        root.lab_sessions.save_settings(made)
        return made

    _show(await asyncio.to_thread(change, services()), as_json=as_json)


def _typed(name: str, value: str, before: object) -> object:
    """Read a value as the setting's kind; the record checks the rest."""
    if isinstance(before, bool):
        if value.lower() not in (*_TRUE, *_FALSE):
            raise Refusal("lab_bad_setting", name=name, value=value[:80], known="true, false")
        return value.lower() in _TRUE
    if isinstance(before, int | float):
        try:
            return int(value) if value.lstrip("+-").isdigit() else float(value)
        except ValueError:
            raise Refusal("lab_bad_setting", name=name, value=value[:80], known="1, 2, 60 …") from None
    return value


async def show_sessions(*, expire: bool, as_json: bool) -> None:
    """List the temporary sessions; with ``expire``, those whose time has come are marked first."""

    def read(root: Services) -> tuple[list[str], list[dict[str, Any]]]:
        over = root.lab_sessions.expire(root.now()) if expire else []
        return over, [found.model_dump(mode="json") for found in root.lab_sessions.sessions()]

    over, found = await asyncio.to_thread(read, services())
    if as_json:
        write_json({"expired": over, "sessions": found} if expire else {"sessions": found})
        return
    if not found:
        note(tell("lab_no_sessions", language()))
    for row in found:
        target = f"{row['related_target_type']} {str(row['related_target_id'])[:8]}"
        rest = paint(f"{row['purpose']} · {target} · → {row['expires_at']}", DIM)
        write(f"{paint(named(row['session_id']), CYAN)} {row['status']} {rest}")
    if expire:
        note(tell("lab_expired", language(), count=len(over)))
