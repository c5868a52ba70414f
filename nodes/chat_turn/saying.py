"""Events of a turn, emitted to the caller in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from personalab.errors import PersonaLabError
from personalab.i18n import DEFAULT, Language
from personalab.story.events import Event, Notice, error_event
from personalab.story.open_turn import Scene


@dataclass(frozen=True, slots=True)
class Say:
    """Emits events of one turn, each warning once a category, in the reader's language."""

    emit: Callable[[Event], None]
    scene: Scene

    @property
    def language(self) -> Language:
        """The reader's language."""
        loaded = self.scene.loaded
        return loaded.preferences.config.language if loaded else DEFAULT

    def warn(self, notices: Iterable[Notice]) -> None:
        """Emit warnings, and keep them for the turn's result."""
        for notice in notices:
            if all(notice.category != known["category"] for known in self.scene.warnings):
                event = notice.event(self.scene.number, self.language)
                self.scene.warnings.append(event)
                self.emit(event)

    def error(self, error: PersonaLabError) -> dict[str, Any]:
        """Emit an error and return it for the turn's result."""
        event = error_event(error, self.scene.number, self.language)
        self.emit(event)
        return dict(event)
