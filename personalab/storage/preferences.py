"""Reading and saving of config.json, the modules' switches and the prompt templates.

Every use looks for changes of the files, so that a change holds from the next turn on, in every process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from personalab import config
from personalab.config import Config, DirectorModule, LoreModule, MemoryModule, RecallModule
from personalab.data_files import locked_file, make_folder, read_bytes, read_json, write_json, writing
from personalab.errors import Invalid, PersonaLabError, StorageError, as_reason, reason_of
from personalab.ports import Preferences
from personalab.story.events import Notice
from personalab.story.records import object_of
from personalab.texts import Language, PromptLanguage

M = TypeVar("M")
Module = Literal["director", "recall", "memory", "lorebook"]
MAX_TEMPLATE_BYTES = 256 * 1024
_DIRECTOR = "modules/director.json"
_FILES = ("config.json", _DIRECTOR, "modules/recall.json", "modules/memory.json", "modules/lorebook.json")
_SETTLED_NS = 1_000_000_000
"""A file that was changed more recently may be changed again without a visible difference in its times."""
_NEEDED = {
    "turn_note": ("{notes}", "{user_input}"),
    "turn": ("{turn}",),
    "summary_line": ("{content}",),
    "last_note": ("{said}",),
}
"""Places without which a template would swallow what was said."""
_SHIPPED = ".shipped"
"""How the shipped text of a blank template is called."""
_ALTERNATING = ("example_start", "example_end", "opening")
"""Messages that may have to be sent also where their template is blank: models insist on taking turns."""


class PreferenceFiles:
    """The settings of a data root; ``shipped`` holds the defaults for files that a root does not have."""

    def __init__(self, root: Path, shipped: Path) -> None:
        self._root = root
        self._shipped = shipped
        self._known: tuple[object, Preferences] | None = None
        self._language: tuple[object, Language] | None = None
        self._templates: dict[PromptLanguage, tuple[object, dict[str, str], list[Notice]]] = {}

    # --- config.json and modules

    def read(self) -> Preferences:
        """Read all settings; what cannot be read is replaced by its careful default, with a warning."""
        now = time.time_ns()
        signature = tuple(_identity(f"{self._root}/{name}") for name in _FILES)
        if self._known is not None and self._known[0] == signature:
            return self._known[1]
        found = self._read_all()
        is_settled = all(file is None or now - file[-1] > _SETTLED_NS for file in signature)
        if is_settled and not found.notices:  # what could not be read may be readable the next time
            self._known = (signature, found)
        return found

    def _read_all(self) -> Preferences:
        try:
            data = object_of(self._read("config.json"))
        except (PersonaLabError, ValueError) as error:
            notice = Notice("config_unreadable", {"file": "config.json", "reason": reason_of(error)})
            modules = (DirectorModule(), RecallModule(), MemoryModule(), LoreModule())
            return Preferences(Config(), *modules, (notice,))
        values, bad = config.read_values(data)
        notices: list[Notice] = []
        if bad:
            notices.append(Notice("config_value", {"file": "config.json", "fields": ", ".join(bad)}))
        modules = (
            self._director(data, notices),
            self._switch("recall", config.read_recall, RecallModule(), notices),
            self._switch("memory", config.read_memory, MemoryModule(), notices),
            self._switch("lorebook", config.read_lore, LoreModule(), notices),
        )
        return Preferences(config.config_of(values), *modules, tuple(notices))

    def language(self) -> Language:
        """Find the reader's language without complaining about anything."""
        return self.chosen_language()[0]

    def known_language(self) -> Language | None:
        """Return the reader's language if config.json has not changed since it was read."""
        if self._language is None or self._language[0] != _identity(f"{self._root}/config.json"):
            return None
        return self._language[1]

    def chosen_language(self) -> tuple[Language, bool]:
        """Find the reader's language, and whether a person set it."""
        now, identity = time.time_ns(), _identity(f"{self._root}/config.json")
        try:
            values, _ = config.read_values(object_of(self._read("config.json")))
        except (PersonaLabError, ValueError):
            return Config().language, False
        language = config.config_of(values).language
        if identity is not None and now - identity[-1] > _SETTLED_NS:
            self._language = (identity, language)
        return language, "preferences.language" in values

    def _director(self, data: Mapping[str, Any], notices: list[Notice]) -> DirectorModule:
        """Read the director's switch; without a file of its own, the one in an older config.json holds."""
        old = config.old_director_switch(data)
        if old is not None and not os.path.lexists(self._root / _DIRECTOR):
            return DirectorModule(old)
        try:
            return config.read_director(object_of(self._read(_DIRECTOR)))
        except (PersonaLabError, ValueError) as error:
            params = {"file": _DIRECTOR, "reason": reason_of(error)}
            notices.append(Notice("director_switch", params))
            return DirectorModule()

    def _switch(self, name: str, read: Callable[[dict[str, Any]], M], off: M, notices: list[Notice]) -> M:
        """Read a module's switch; one that cannot be read is off."""
        file = f"modules/{name}.json"
        try:
            return read(self._module(file))
        except (PersonaLabError, ValueError) as error:
            notices.append(Notice(f"{name}_switch", {"file": file, "reason": reason_of(error)}))
            return off

    def _module(self, name: str) -> dict[str, Any]:
        """Read a module's file; a root from before there was one has the shipped one."""
        root = self._root if (self._root / name).exists() else self._shipped
        return object_of(read_json(root / name, name))

    def _read(self, name: str) -> object:
        return read_json(self._root / name, name)

    def values(self) -> dict[str, Any]:
        """Give every setting by its dotted name."""
        return config.all_values(config.read_values(self._for_change())[0])

    def change(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Save some settings, all of them or none; return all settings."""
        checked = config.check_changes(changes)
        with self._locked():
            data = self._for_change()
            values = {**config.read_values(data)[0], **checked}
            self._save(data, values)
        return config.all_values(values)

    def reset(self, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Restore the defaults but for some changes, also where the file cannot be read any more."""
        checked = config.check_changes(changes or {})
        with self._locked():
            try:
                data = self._for_change()
            except PersonaLabError:
                data = {}
            values = {**config.reset_values(config.read_values(data)[0]), **checked}
            known = dict.fromkeys(("thresholds", "limits", "preferences"))
            self._save({**data, **known}, values)
        return config.all_values(values)

    def switch(self, module: Module, *, on: bool) -> None:
        """Switch a module on or off; what else its file holds stays."""
        file = f"modules/{module}.json"
        with self._locked():
            try:
                data = self._module(file)
            except ValueError as error:
                raise StorageError("file_broken", file=file, reason=as_reason(error)) from error
            change: dict[str, Any] = {"enabled": on}
            if module == "recall":
                change = {"trigger": "auto" if on else "off"}
            with writing(file):
                make_folder(self._root / "modules")
            write_json(self._root / file, {**data, **change}, file)

    def _for_change(self) -> dict[str, Any]:
        if not (self._root / "config.json").exists():
            return {}
        try:
            return object_of(self._read("config.json"))
        except ValueError as error:
            raise StorageError("file_broken", file="config.json", reason=as_reason(error)) from error

    def _save(self, data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        old_switch = config.old_director_switch(data)
        module = self._root / _DIRECTOR
        if old_switch is not None and not os.path.lexists(module):
            with writing(_DIRECTOR):
                make_folder(module.parent)
            write_json(module, {"enabled": old_switch}, _DIRECTOR)
        write_json(self._root / "config.json", config.new_shape(data, values), "config.json")

    def _locked(self) -> locked_file:
        return locked_file(self._root / ".lock", "config.json")

    # --- prompt templates

    def templates(self, language: PromptLanguage) -> tuple[dict[str, str], list[Notice]]:
        """Read the prompt templates of a language; one that is missing is taken from the shipped ones."""
        own = self._root / "prompt_templates" / language
        shipped = self._shipped / "prompt_templates" / language
        known = self._templates.get(language)
        names = (
            [name for name in known[1] if not name.endswith(_SHIPPED)]
            if known
            else sorted(path.stem for path in shipped.iterdir() if path.suffix == ".txt")
        )
        signature = tuple(_identity(f"{own}/{name}.txt") for name in names)
        if known is not None and known[0] == signature:
            return known[1], known[2]
        notices: list[Notice] = []
        texts = {
            name: self._template((own if there else shipped) / f"{name}.txt", shipped, notices)
            for name, there in zip(names, signature, strict=True)
        }
        for name in _ALTERNATING:
            if not texts.get(name, "-").strip():
                texts[f"{name}{_SHIPPED}"] = self._template(shipped / f"{name}.txt", shipped, notices)
        if not notices:
            self._templates[language] = (signature, texts, notices)
        return texts, notices

    def _template(self, path: Path, shipped: Path, notices: list[Notice]) -> str:
        shown = f"prompt_templates/{path.parent.name}/{path.name}"
        try:
            text = read_bytes(path, shown, MAX_TEMPLATE_BYTES).decode("utf-8-sig").rstrip("\n")
            for place in _NEEDED.get(path.stem, ()):
                if place not in text:
                    raise Invalid("field_missing", field=place)
            return text
        except (PersonaLabError, ValueError) as error:
            if path.parent == shipped:
                raise
            notices.append(Notice("template_unreadable", {"file": shown, "reason": reason_of(error)}))
            fallback = shipped / path.name
            return fallback.read_text(encoding="utf-8").rstrip("\n") if fallback.exists() else ""


def _identity(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
