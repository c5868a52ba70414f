"""Report sections for the score matrix and for the answers behind it."""

from __future__ import annotations

from personalab.lab.dimensions import DIMENSIONS, MAXIMA, Dimension
from personalab.lab.reports.data import MAX_TEXT, CaseRow, Cell, Excerpt, ReportData, ReportSkill
from personalab.lab.reports.visible import grouped, markup, shortened
from personalab.lab.reports.words import Translator, block, quote

_ANSWERS_BYTES = 17_000_000
"""Maximum size of answers and reasons in a report; it stays below 20 MB."""
_CUTS = (MAX_TEXT, 1_000, 500, 250, 100, 50, 25)
_CASE_TEXT = 250
"""Minimum characters shown of a case, because it is shown once."""
_MAX_NAMED_SCORES = 4_000
"""Number of cells above which the six scores are shown without their names."""
_LEVELS = 10
_SIGNS = {"failed": ("x", "✕"), "broken": ("x", "!"), "skipped": ("u", "–")}


def matrix_section(data: ReportData, say: Translator) -> str:
    """Show the scores of every skill on every case."""
    head = "".join(
        f'<th scope="col" title="{markup(row.name)}">{_column(row, say)}</th>' for row in data.rows
    )
    several = len({case.baseline_id for case in data.cases}) > 1
    lines = "".join(_line(data, at, case, say, several=several) for at, case in enumerate(data.cases))
    cells = len(data.rows) * len(data.cases)
    note = "" if data.with_texts else f'<p class="note">{say("too_large", cells=grouped(cells))}</p>'
    return (
        f'<section id="matrix"><h2>{say("matrix")}</h2>{note}<div class="scroll tall" role="region" tabindex="0" '
        f'aria-label="{markup(say.plain("matrix"))}"><table class="matrix"><caption><span>{say("matrix_caption")}'
        f'</span></caption><thead><tr><th class="start" scope="col">{say("case")}</th>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div></section>"
    )


def skill_name(row: ReportSkill, say: Translator) -> str:
    """Name a skill; the arm without one has no name of its own."""
    return say.plain("no_skill_name") if row.is_no_skill else row.name or row.skill_id


def _column(row: ReportSkill, say: Translator) -> str:
    place = f"<b>{row.rank}</b> " if row.rank is not None else ""
    return f"{place}<bdi>{markup(shortened(skill_name(row, say), 24))}</bdi>"


def _line(data: ReportData, at: int, case: CaseRow, say: Translator, *, several: bool) -> str:
    cells = "".join(_td(data, skill, at, say) for skill in range(len(data.rows)))
    more = " · ".join(part for part in (case.name, case.baseline if several else "") if part)
    below = f"<small><bdi>{markup(shortened(more, 60))}</bdi></small>" if more else ""
    return f'<tr><th scope="row">{quote(case.case_id)}{below}</th>{cells}</tr>\n'


def _td(data: ReportData, skill: int, case: int, say: Translator) -> str:
    cell = data.cell(skill, case)
    kind, sign = _look(cell, data.pass_score)
    if cell is None:
        return f'<td class={kind} title="{say("not_run")}">{sign}</td>'
    label = f' title="{say(cell.status)}"' if cell.status != "completed" else ""
    inside = f'<a href="#r{skill}-{case}">{sign}</a>' if data.with_texts else sign
    return f"<td class={kind}{label}>{inside}</td>"


def _look(cell: Cell | None, pass_score: float) -> tuple[str, str]:
    if cell is None:
        return "u", "·"
    if cell.status != "completed" or cell.total is None:
        return _SIGNS.get(cell.status, ("x", "!"))
    if cell.total < pass_score:
        return "b", f"▾{_total(cell.total)}"
    room = max(100 - pass_score, 1e-9)
    level = min(int((cell.total - pass_score) / room * _LEVELS), _LEVELS - 1)
    return f"h{level}", _total(cell.total)


def _total(total: float) -> str:
    """Write a total: one of whole scores has no decimal."""
    return f"{total:.0f}" if total == int(total) else f"{total:.1f}"


# --- the texts


def answers_section(data: ReportData, say: Translator) -> str:
    """Show what was answered to each case, and why it was scored so; nothing where there is too much."""
    if not data.with_texts or not any(cell for line in data.cells for cell in line):
        return ""
    limit, left, lines = _limit(data, say), _ANSWERS_BYTES, list[str]()
    for at, case in enumerate(data.cases):
        shown = _case(data, at, case, limit, say)
        size = len(shown.encode())
        if size > left:
            lines.append(f'<p class="note">{say("left_out")}</p>')
            break
        left -= size
        lines.append(shown)
    return (
        f'<section id="answers"><h2>{say("answers")}</h2><p class="note">{say("answers_note")}</p>'
        f'<div class="answers">{"".join(lines)}</div></section>'
    )


def _limit(data: ReportData, say: Translator) -> int:
    """Choose how much of each text is shown, the same for all of them."""
    texts = [
        text
        for line in data.cells
        for cell in line
        if cell
        for text in (cell.output.text, cell.reasoning.text)
    ]
    around = max(len(_case(data, at, data.cases[at], 1, say).encode()) for at in (0, len(data.cases) - 1))
    room = _ANSWERS_BYTES - around * len(data.cases)
    for limit in _CUTS:
        if sum(len(text[:limit].encode("utf-8", "replace")) for text in texts) <= room:
            return limit
    return _CUTS[-1]


def _case(data: ReportData, at: int, case: CaseRow, limit: int, say: Translator) -> str:
    category = f'<span class="tag">{say(case.category)}</span>' if case.category else ""
    head = f"<b>{quote(case.case_id)}</b><span>{quote(case.name)}</span>{category}"
    asked = _texts(say, max(limit, _CASE_TEXT), input=Excerpt(case.input), expected=Excerpt(case.expected))
    answers = "".join(_answer(data, skill, at, limit, say) for skill in range(len(data.rows)))
    return f'<details id="c{at}"><summary>{head}</summary><div>{asked}{answers}</div></details>\n'


def _answer(data: ReportData, skill: int, case: int, limit: int, say: Translator) -> str:
    cell = data.cell(skill, case)
    if cell is None:
        return ""
    kind, sign = _look(cell, data.pass_score)
    state = "" if cell.status == "completed" else f" {say(cell.status)}"
    took = say("seconds", value=f"{cell.duration_ms / 1000:.1f}") if cell.duration_ms else ""
    name = quote(skill_name(data.rows[skill], say))
    head = f'<span>{name}</span><span class="end muted">{took}</span><span class="tag {kind}">{sign}{state}</span>'
    texts = _texts(say, limit, error=Excerpt(cell.error), answer=cell.output, reasoning=cell.reasoning)
    named = len(data.rows) * len(data.cases) <= _MAX_NAMED_SCORES
    inside = f"{_parts(cell, say, named=named)}{texts}"
    return f'<details id="r{skill}-{case}"><summary>{head}</summary><div>{inside}</div></details>'


def _parts(cell: Cell, say: Translator, *, named: bool) -> str:
    if not cell.scores:
        return ""
    known: list[tuple[Dimension, float]] = [
        (name, cell.scores[name]) for name in DIMENSIONS if name in cell.scores
    ]
    if not named:
        return f"<p class=parts>{' · '.join(f'{score:.4g}' for _, score in known)}</p>"
    parts = [f"<span>{say(name)} <b>{score:.4g}</b>/{MAXIMA[name]}</span>" for name, score in known]
    return f'<p class="parts">{"".join(parts)}</p>'


def _texts(say: Translator, limit: int, **texts: Excerpt) -> str:
    parts = list[str]()
    for name, found in texts.items():
        shown = found.cut(limit)
        if not shown.text.strip():
            continue
        more = f'<p class="label">{say("cut", count=grouped(shown.more))}</p>' if shown.more else ""
        parts.append(f'<p class="label">{say(name)}</p>{block(shown.text)}{more}')
    return "".join(parts)
