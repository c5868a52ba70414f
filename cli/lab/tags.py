"""Terminal output and commands for the tags of skills and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.lab.finding import Kind, asset_of
from cli.lab.showing import named, short_id, warned
from cli.output import BOLD, DIM, ProgressLine, paint, write, write_json
from cli.running import DONE, FAILED, Refusal, language, services
from cli.texts import tell
from personalab.operations.lab import tags


async def show_tags(word: str, kind: Kind | None, *, as_json: bool) -> None:
    """Print the tags of an asset with what was decided on each."""
    found, stored = await asset_of(word, kind)
    whole = {"kind": found, "id": stored.meta.id, "name": stored.meta.name}
    _show({**whole, **stored.tags.model_dump(mode="json")}, as_json=as_json)


async def change_tags(
    word: str, kind: Kind | None, values: Sequence[str], *, adding: bool, as_json: bool
) -> None:
    """Add tags to an asset, or remove them."""
    found, stored = await asset_of(word, kind)
    change = tags.add_tag if adding else tags.remove_tag
    changed: dict[str, Any] = {}
    for value in values:
        changed = await change(services(), found, stored.meta.id, value)
    _show(changed, as_json=as_json)


async def judge_tags(
    word: str,
    kind: Kind | None,
    values: Sequence[str],
    *,
    approving: bool,
    everything: bool,
    as_json: bool,
) -> None:
    """Accept or refuse tags that a model proposed."""
    found, stored = await asset_of(word, kind)
    if everything == bool(values):
        raise Refusal("lab_tags_or_all")
    if everything:
        values = [tag.id for tag in stored.tags.auto if tag.status == "pending"]
        if not values:
            raise Refusal("lab_no_pending", name=stored.meta.name[:80])
    judge = tags.approve_tag if approving else tags.reject_tag
    changed: dict[str, Any] = {}
    for value in values:
        changed = await judge(services(), found, stored.meta.id, value)
    _show(changed, as_json=as_json)


async def auto_tag(word: str, kind: Kind | None, model: str | None, *, as_json: bool) -> None:
    """Ask a model for tags of one asset."""
    found, stored = await asset_of(word, kind)
    with_progress = ProgressLine()
    with_progress.show(tell("lab_tagging", language(), name=named(stored.meta.name)))
    try:
        done = await tags.auto_tag(services(), found, stored.meta.id, model=model)
    finally:
        with_progress.clear()
    if as_json:
        write_json(done)
    else:
        _show_proposed(done)


async def batch(words: Sequence[str], kind: Kind, model: str | None, *, as_json: bool) -> int:
    """Ask a model for tags of several assets, or of all that have none; a failure makes the exit code 1."""
    ids = [(await asset_of(word, kind))[1].meta.id for word in words] or None
    progress = ProgressLine()
    progress.show(tell("lab_tagging", language(), name="…"))
    try:
        done = await tags.batch(services(), kind, ids, model=model)
    finally:
        progress.clear()
    if as_json:
        write_json(done)
    for row in done:
        if row["status"] == "failed":
            warned("lab_tagging_failed", asset_id=row["id"][:8], message=named(row["error"]["message"]))
        elif not as_json:
            _show_proposed(row)
    if not done and not as_json:
        write(tell("lab_all_tagged", language()))
    return FAILED if any(row["status"] == "failed" for row in done) else DONE


def _show_proposed(done: dict[str, Any]) -> None:
    values = ", ".join(named(tag["value"]) for tag in done["tags"]) or "–"
    write(f"{short_id(done['id'])} {paint(named(done['name']), BOLD)} {values}")
    if done["tags"]:
        write(paint(tell("lab_approve_them", language(), asset_id=done["id"][:8]), DIM))


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(found)
        return
    write(f"{short_id(found['id'])} {paint(named(found['name']), BOLD)}")
    for tag in found["manual"]:
        write(f"  #{named(tag['value'])}")
    for tag in found["auto"]:
        state = tell(f"lab_tag_{tag['status']}", language())
        write(f"  #{named(tag['value'])} {paint(state, DIM)}")
    if not found["manual"] and not found["auto"]:
        write(paint(tell("lab_no_tags", language()), DIM))
