"""Reader for background files with their outlines, with size limits.

The format is the ``background.json`` of every data root; lorebooks have formats of their own.
"""

from __future__ import annotations

from typing import Any

from personalab.archive.foreign_files import object_at
from personalab.errors import BadRecord, Reason, as_reason
from personalab.story.library import Background

MAX_NAME = 200
MAX_TEXT = 200_000
MAX_POINTS = 200
MAX_POINT = 10_000


def read_world(data: object, background_id: str) -> Background:
    """Read a world that comes from elsewhere."""
    found = object_at(data, "background")
    try:
        world = Background.read(background_id, found)
    except ValueError as error:
        raise BadRecord("field_wrong", field="background", reason=as_reason(error)) from error
    _check_length("name", world.name, MAX_NAME)
    _check_length("world_setting", world.world_setting, MAX_TEXT)
    if len(world.story_outline) > MAX_POINTS:
        reason = Reason("too_many_points", count=len(world.story_outline), limit=MAX_POINTS)
        raise BadRecord("field_wrong", field="story_outline", reason=reason)
    for point in world.story_outline:
        _check_length(f"story_outline[{point.index - 1}]", point.content, MAX_POINT)
    if not world.world_setting.strip() and not any(point.content.strip() for point in world.story_outline):
        raise BadRecord("field_wrong", field="world_setting", reason=Reason("blank_without_outline"))
    return world


def meaning_of(world: Background) -> dict[str, Any]:
    """Return what a world says, whichever id it has."""
    return {name: value for name, value in world.fields().items() if name != "background_id"}


def _check_length(field: str, text: str, limit: int) -> None:
    if len(text) > limit:
        reason = Reason("too_many_characters", count=len(text), limit=limit)
        raise BadRecord("field_wrong", field=field, reason=reason)
