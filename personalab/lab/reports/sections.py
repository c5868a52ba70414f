"""Report sections for the score matrix, the answers, the iteration and the analysis."""

from __future__ import annotations

from collections.abc import Iterator

from personalab.lab.records import DIMENSIONS, MAXIMA, Dimension
from personalab.lab.reports.data import (
    MAX_TEXT,
    CaseRow,
    Cell,
    ContentPair,
    Excerpt,
    Iteration,
    ReportData,
    ReportSkill,
    RoundMark,
)
from personalab.lab.reports.plots import MAX_ROUNDS, best_so_far, progress
from personalab.lab.reports.texts import (
    DiffLine,
    Translator,
    block,
    difference,
    figure,
    grouped,
    markup,
    quote,
    shortened,
)

_ANSWERS_BYTES = 17_000_000
"""Maximum size of answers and reasons in a report; it stays below 20 MB."""
_CUTS = (MAX_TEXT, 1_000, 500, 250, 100, 50, 25)
_CASE_TEXT = 250
"""Minimum characters shown of a case, because it is shown once."""
_MAX_NAMED_SCORES = 4_000
"""Number of cells above which the six scores are shown without their names."""
_LEVELS = 10
_CELL_SIGNS = {"failed": ("x", "✕"), "broken": ("x", "!"), "skipped": ("u", "–")}


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
        return _CELL_SIGNS.get(cell.status, ("x", "!"))
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


_MAX_FINDINGS = 200
_MAX_DIFF_LINES = 3_000
_LINE_SIGNS = {"same": " ", "gone": "−", "new": "+", "skipped": ""}


def iteration_section(data: ReportData, say: Translator) -> str:
    """Show how an iteration went."""
    found = data.iteration
    if found is None:
        return ""
    facts = "".join(f"<div><dt>{say(name)}</dt><dd>{value}</dd></div>" for name, value in _facts(found, say))
    drawn = progress(found, say.language) if found.rounds else ""
    diamond = say.plain("diamond_corrected" if found.retested else "diamond_estimated")
    return (
        f'<section id="iteration"><h2>{say("iteration")}</h2><dl class="pairs">{facts}</dl>'
        f'<p class="note">{say("iteration_note", diamond=diamond)}</p>{drawn}{_rounds_table(found, say)}</section>'
    )


def _facts(found: Iteration, say: Translator) -> Iterator[tuple[str, str]]:
    if found.start_score is not None:
        yield "start", figure(found.start_score)
    if found.best_score is not None:
        yield "best", figure(found.best_score)
    if found.corrected is not None:
        span = found.corrected_interval
        around = "" if span is None else f" ({figure(span.low)} – {figure(span.high)})"
        yield "corrected" if found.retested else "estimated", f"{figure(found.corrected)}{around}"
    if found.best_name:
        yield "winner", quote(found.best_name)
    if found.evaluations is not None:
        yield "evaluations", grouped(found.evaluations)
    if found.stop_cause:
        yield "stopped", say(found.stop_cause)


def _rounds_table(found: Iteration, say: Translator) -> str:
    if not found.rounds:
        return ""
    heads = ("round", "strategy", "winner", "score", "best_so_far", "plateau", "candidates")
    kinds = (" class=start", " class=start", " class=start", "", "", "", "")
    head = "".join(f'<th scope="col"{kind}>{say(name)}</th>' for name, kind in zip(heads, kinds, strict=True))
    best = best_so_far(found)
    lines = "".join(_round_line(mark, best[at], say) for at, mark in enumerate(found.rounds[:MAX_ROUNDS]))
    left = len(found.rounds) - MAX_ROUNDS
    more = f'<p class="note">{say("more", count=left)}</p>' if left > 0 else ""
    return (
        f'<div class="scroll" tabindex="0"><table><caption><span>{say("rounds_caption")}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>{more}"
    )


def _round_line(mark: RoundMark, best: float | None, say: Translator) -> str:
    scored = sum(dot.score is not None for dot in mark.candidates)
    tried = (
        say("candidates_value", scored=scored, out=len(mark.candidates) - scored) if mark.candidates else "–"
    )
    plateau = "–" if mark.plateau_level is None else str(mark.plateau_level)
    return (
        f'<tr><th scope="row">{mark.round}</th><td class="start">{quote(mark.strategy)}</td>'
        f'<td class="start">{quote(mark.winner)}</td><td>{figure(mark.score)}</td><td>{figure(best)}</td>'
        f"<td>{plateau}</td><td>{tried}</td></tr>\n"
    )


def diff_section(data: ReportData, say: Translator) -> str:
    """Show what the winner has that its parent has not."""
    if data.pair is None:
        return ""
    return f'<section id="diff"><h2>{say("diff")}</h2>{_diff(data.pair, say)}</section>'


def _diff(pair: ContentPair, say: Translator) -> str:
    found = difference(pair.before, pair.after)
    if not found.lines:
        return f'<p class="note">{say("diff_same")}</p>'
    cut = found.cut or len(found.lines) > _MAX_DIFF_LINES
    lines = "".join(_diff_line(line, say) for line in found.lines[:_MAX_DIFF_LINES])
    note = f'<p class="note">{say("diff_cut")}</p>' if cut else ""
    caption = say("diff_caption", parent=pair.parent, winner=pair.winner)
    return (
        f'<div class="scroll diff"><table><caption><span>{caption}</span></caption>'
        f"<tbody>{lines}</tbody></table></div>{note}"
    )


def _diff_line(line: DiffLine, say: Translator) -> str:
    if line.kind == "skipped":
        return f'<tr class="skipped"><td></td><td>{say("diff_skipped", count=line.count)}</td></tr>\n'
    tag = {"gone": "del", "new": "ins"}.get(line.kind, "span")
    text = "".join(
        f"<{tag}>{markup(piece.text)}</{tag}>" if piece.marked else markup(piece.text)
        for piece in line.pieces
    )
    return (
        f'<tr class="{line.kind}"><td>{_LINE_SIGNS[line.kind]}</td><td dir="auto">{text or " "}</td></tr>\n'
    )


def analysis_section(data: ReportData, say: Translator) -> str:
    """Show the segments that help, and what is missing."""
    found = data.analysis
    if found is None or not (found.segments or found.issues):
        return ""
    segments = "".join(
        f"<li><h4>{quote(each.segment_id)} · {quote(each.skill)} "
        f'<span class="tag">{say(each.dimension)}</span></h4>{block(each.content)}<p>{quote(each.reason)}</p></li>'
        for each in found.segments[:_MAX_FINDINGS]
    )
    issues = "".join(
        f'<li><h4>{quote(each.skill)} <span class="tag">{say(each.dimension)}</span></h4>'
        f"<p>{quote(each.description)}</p></li>"
        for each in found.issues[:_MAX_FINDINGS]
    )
    return (
        f'<section id="analysis"><h2>{say("analysis")}</h2>'
        f"{_listed('segments', segments, len(found.segments), say)}{_listed('issues', issues, len(found.issues), say)}"
        "</section>"
    )


def _listed(name: str, items: str, count: int, say: Translator) -> str:
    if not items:
        return ""
    more = f'<p class="note">{say("more", count=count - _MAX_FINDINGS)}</p>' if count > _MAX_FINDINGS else ""
    return f'<h3>{say(name)}</h3><ul class="cards">{items}</ul>{more}'
