"""Report sections for an iteration, its winner and the analysis of the skills."""

from __future__ import annotations

from collections.abc import Iterator

from personalab.lab.reports.data import ContentPair, Iteration, ReportData, RoundMark
from personalab.lab.reports.diffs import DiffLine, difference
from personalab.lab.reports.plots import MAX_ROUNDS, best_so_far, progress
from personalab.lab.reports.visible import figure, grouped, markup
from personalab.lab.reports.words import Translator, block, quote

_MAX_FINDINGS = 200
_MAX_DIFF_LINES = 3_000
_SIGNS = {"same": " ", "gone": "−", "new": "+", "skipped": ""}


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
    return f'<tr class="{line.kind}"><td>{_SIGNS[line.kind]}</td><td dir="auto">{text or " "}</td></tr>\n'


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
