"""Resolution of an id to a character, background or story, which may share ids."""

from __future__ import annotations

from collections.abc import Sequence

from personalab.errors import NotFound, UserError
from personalab.storage.stories import Kind, StoryFiles
from personalab.story.records import check_id

KINDS: tuple[Kind, ...] = ("instances", "characters", "backgrounds")


def find_entry(stories: StoryFiles, named: str, among: Sequence[Kind] = KINDS) -> tuple[Kind, str]:
    """Find the kind of an entry; ``characters/ID`` names the kind, too, as the folders do."""
    said, _, entry_id = named.rpartition("/")
    chosen: list[Kind] = [kind for kind in among if not said or kind == said]
    check_id(entry_id if chosen else named, "id")
    found: list[Kind] = [kind for kind in chosen if (stories.root / kind / entry_id).is_dir()]
    if not found:
        raise NotFound("no_library_entry", entry_id=named, kinds=", ".join(among))
    if len(found) > 1:
        choices = ", ".join(f"{kind}/{entry_id}" for kind in found)
        raise UserError("entry_ambiguous", entry_id=entry_id, choices=choices)
    return found[0], entry_id
