"""Crash-safe writing of summaries.

The plots are next to the session they lead to (``{session}.plots.json``), the summaries in it. Both are
written before the instance is switched to the new session, which is the last step and atomic: until then they
are a draft that nobody reads. A draft, or a session that was undone, is replaced by setting it aside, never
by deleting it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from personalab.errors import Invalid, Reason, StorageError, UserError, as_reason
from personalab.storage.files import read_json, replace_file, write_json, writing
from personalab.storage.stories import StoryFiles
from personalab.story.instance import InstanceState, object_of
from personalab.story.lines import Line, dump_line
from personalab.story.summary import PlotPoint


class SummaryFiles:
    """The summaries of the stories under one data root; writers hold the instance's lock."""

    def __init__(self, stories: StoryFiles) -> None:
        self._stories = stories

    def next_session_id(self, session_id: str) -> str:
        """Return the next session's id: one higher than the current one."""
        digits = session_id.rpartition("_")[2]
        number = int(digits) + 1 if digits.isdigit() and len(digits) < 10 else 1
        return f"sess_{number:03}"

    def write_draft(
        self, instance_id: str, session_id: str, lines: Sequence[Line], points: Sequence[PlotPoint]
    ) -> None:
        """Write the next session and its plots; existing files under these names are set aside."""
        path = self._stories.session_path(instance_id, session_id)
        self.set_aside(instance_id, session_id)
        write_json(
            self._plots(path),
            {"points": [point.fields() for point in points]},
            self._shown(self._plots(path)),
        )
        replace_file(path, map(dump_line, lines), self._shown(path))

    def switch(
        self, instance_id: str, session_id: str, *, expected: str, note: Mapping[str, Any] | None = None
    ) -> InstanceState:
        """Make another session the current one, if the expected one still is; ``note`` is kept beside it."""
        state = self._stories.instance(instance_id)
        if state.current_session_id != expected:
            raise UserError("session_switched", session_id=state.current_session_id)
        fresh = replace(state, current_session_id=session_id, source={**state.source, **(note or {})})
        self._stories.save_instance(fresh)
        return fresh

    def set_aside(self, instance_id: str, session_id: str) -> str:
        """Move a session that is not current out of the way, with its plots; nothing is deleted. Name its new place."""
        path = self._stories.session_path(instance_id, session_id)
        place = ""
        for found in (self._plots(path), path):
            if not found.exists():
                continue
            free = _free_name(found)
            with writing(self._shown(found)):
                os.rename(found, free)
            place = self._shown(free)
        self._stories.cache.forget(path)
        return place

    def plots(self, instance_id: str, session_id: str) -> list[PlotPoint]:
        """Read the plots beside a session; none where there is no file."""
        path = self._plots(self._stories.session_path(instance_id, session_id))
        if not path.exists():
            return []
        shown = self._shown(path)
        try:
            given: object = object_of(read_json(path, shown)).get("points", [])
            if not isinstance(given, list):
                raise Invalid("field_not_list", field="points")
            return [PlotPoint.read(data) for data in cast("list[object]", given)]
        except ValueError as error:
            raise StorageError("file_broken", file=shown, reason=as_reason(error)) from error

    def _plots(self, session: Path) -> Path:
        return session.with_name(f"{session.stem}.plots.json")

    def _shown(self, path: Path) -> str:
        return self._stories.shown(path)


def _free_name(path: Path) -> Path:
    """Find a free name next to it."""
    for number in range(1, 10_000):
        name = path.with_name(f"{path.name}.aside{number}")
        if not name.exists():
            return name
    raise StorageError("not_writable", file=path.name, reason=Reason("too_many_set_aside"))
