"""Terminal output and commands for the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cli.output import CYAN, DIM, paint, warn, write, write_json
from cli.running import language_of
from cli.texts import tell
from personalab.app import Application
from personalab.config import FIELDS, parse_value
from personalab.errors import PersonaLabError
from personalab.texts import Language

if TYPE_CHECKING:
    from personalab.services import Services


def show_settings(services: Services, *, as_json: bool) -> None:
    """Print every setting, and the switches of the modules."""
    values = Application(services).settings()
    if as_json:
        write_json(values.model_dump())
        return
    language = language_of(services)
    write("\n".join(setting_rows(services, values.root, language)))
    for notice in services.preferences.read().notices:
        warn(notice.event(None, language), language)


def setting_rows(services: Services, values: Mapping[str, object], language: Language) -> list[str]:
    """Lay out the settings with their ranges, defaults and meanings."""
    width = max(map(len, FIELDS))
    rows: list[str] = []
    for name, rule in FIELDS.items():
        details = tell("range_is", language, range=rule)
        if values[name] != rule.default:
            details += "  " + tell("default_is", language, value=shown(rule.default))
        details += "  " + tell(f"setting_{name.split('.')[1]}", language)
        rows.append(f"{paint(name.ljust(width), CYAN)}  {shown(values[name]):<14}  {paint(details, DIM)}")
    found = services.preferences.read()
    director = tell("on" if found.director.enabled else "off", language)
    rows.append(f"{tell('director', language)} {director}  {paint('modules/director.json', DIM)}")
    rows.append(f"{tell('recall', language)} {found.recall.trigger}  {paint('modules/recall.json', DIM)}")
    lore = tell("on" if found.lore.enabled else "off", language)
    rows.append(f"{tell('lorebooks', language)} {lore}  {paint('modules/lorebook.json', DIM)}")
    memory = tell("on" if found.memory.enabled else "off", language)
    rows.append(f"{tell('player_memory', language)} {memory}  {paint('modules/memory.json', DIM)}")
    return rows


def shown(value: object) -> str:
    """Write a value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def change_setting(services: Services, name: str, value: str, *, as_json: bool) -> None:
    """Change one setting, or refuse it with its range."""
    values = Application(services).change_settings({name: parse_value(name, value)})
    if as_json:
        write_json(values.model_dump())
    else:
        write(tell("saved", language_of(services)))


def reset_settings(services: Services, *, as_json: bool) -> None:
    """Restore the defaults; the language stays unless the file could not be read."""
    try:
        services.preferences.values()
        code = "reset"
    except PersonaLabError:
        code = "reset_anew"
    values = Application(services).reset_settings()
    if as_json:
        write_json(values.model_dump())
    else:
        write(tell(code, language_of(services)))
