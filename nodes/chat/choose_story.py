"""Choice of the story that a thread plays."""

from __future__ import annotations

from personalab.errors import UserError
from personalab.operations.overview import list_stories
from personalab.services import Services
from personalab.story.records import check_id

_LISTED = 20


def choose_story(services: Services, given: object) -> str:
    """Return the story that was named, or the only one there is; else say which there are and how to name one."""
    if given is not None and given != "":
        return check_id(given, "instance_id")
    stories = list_stories(services)
    if len(stories) == 1:
        return stories[0].instance_id
    if not stories:
        raise UserError("no_story_yet")
    listed = ", ".join(story.instance_id for story in stories[:_LISTED])
    raise UserError("no_story_chosen", stories=listed + (", …" if len(stories) > _LISTED else ""))
