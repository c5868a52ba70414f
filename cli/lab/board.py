"""Terminal output for the leaderboard, with outdated results marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from cli.lab.finding import baseline_of
from cli.lab.showing import named, padded, score, short_id, warned
from cli.output import BOLD, DIM, YELLOW, columns, note, paint, write, write_json
from cli.running import language, services
from cli.texts import tell

Row = Mapping[str, Any]


async def show_board(baseline: str | None, purpose: str | None, *, flat: bool, as_json: bool) -> None:
    """Print who did best on which baseline."""
    from personalab.operations.lab.leaderboard import leaderboard

    tests = (await baseline_of(baseline)).meta.id if baseline is not None else None
    found = await leaderboard(services(), group=not flat, baseline_id=tests, purpose=purpose)
    if as_json:
        write_json(found)
        return
    groups = cast("list[Row]", found.get("groups") or [])
    records = cast("list[Row]", found.get("records") or [])
    if not groups and not records:
        note(tell("lab_board_empty", language()))
    for group in groups:
        head = f"{paint(named(group['baseline_name']), BOLD)} {short_id(str(group['baseline_id']))}"
        count = tell("lab_board_skills", language(), count=group["skill_count"])
        write(f"{head} {paint(count, DIM)}")
        _show_records(group["records"], with_baseline=False)
    _show_records(records, with_baseline=True)
    for warning in found["warnings"]:
        warned("warning", message=_worded(warning))


def _show_records(records: Sequence[Row], *, with_baseline: bool) -> None:
    if not records:
        return
    width = max(columns(named(row["skill_name"])) for row in records)
    for row in records:
        tested = f"{row['skill_version_tested']} {row['completed_cases']}/{row['case_count']}"
        place = f"{named(row['baseline_name'])} · " if with_baseline else ""
        stale = row["staleness"]
        mark = "" if stale == "current" else paint(f" {tell(f'lab_{stale}', language())}", YELLOW)
        rest = paint(f"{tested} {place}{named(row['project_name'])} {row['tested_at']}", DIM)
        write(f"  {score(row['avg_score']):>5} {padded(named(row['skill_name']), width)} {rest}{mark}")


def _worded(warning: Row) -> str:
    from personalab.lab.calling import warning_text

    return named(warning_text(warning, language()))
