"""The HTML report: one self-contained page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from personalab.lab.records import CATEGORIES, DIMENSIONS, MAXIMA
from personalab.lab.reports.data import Costs, Judge, ReportData, ReportSkill
from personalab.lab.reports.page import page
from personalab.lab.reports.plots import Scale, axis, bar, scale_for, strip
from personalab.lab.reports.sections import (
    analysis_section,
    answers_section,
    diff_section,
    iteration_section,
    matrix_section,
    skill_name,
)
from personalab.lab.reports.texts import Translator, figure, grouped, markup, one_line, quote, visible
from personalab.lab.statistics import Interval
from personalab.texts import Language

_MAX_STRIPS = 60
_MAX_BARS = 6
_MAX_PAIRED = 3


def html_report(data: ReportData, language: Language) -> str:
    """Write a project as a page; untrusted texts in it are escaped."""
    say = Translator(language)
    sections = {
        "ranking": _ranking_section(data, say),
        "dimensions": _dimensions_section(data, say),
        "iteration": iteration_section(data, say),
        "diff": diff_section(data, say),
        "analysis": analysis_section(data, say),
        "matrix": matrix_section(data, say) if data.rows and data.cases else "",
        "answers": answers_section(data, say),
    }
    shown = [name for name, section in sections.items() if section]
    links = "".join(f'<a href="#{name}">{say(name)}</a>' for name in shown)
    nav = f'<nav aria-label="{markup(say.plain("contents"))}">{links}</nav>' if shown else ""
    joined = "\n".join(section for section in sections.values() if section)
    body = "\n".join([_header(data, say, nav), f"<main>{joined}</main>", _footer(data, say)])
    return page(f"{markup(one_line(data.name))} · {say('report')}", body, language)


# --- the head


def _header(data: ReportData, say: Translator, nav: str) -> str:
    told = f"<p>{markup(visible(data.description))}</p>" if data.description.strip() else ""
    facts = "".join(f"<div><dt>{say(name)}</dt><dd>{value}</dd></div>" for name, value in _facts(data, say))
    return (
        f'<header><p class="eyebrow">PersonaLab · {say("report")}</p><h1>{quote(data.name)}</h1>{told}'
        f'{_notices(data, say)}<dl class="facts">{facts}</dl>{nav}</header>'
    )


def _facts(data: ReportData, say: Translator) -> Iterator[tuple[str, str]]:
    skills, cases = sum(not row.is_no_skill for row in data.rows), len(data.cases)
    if data.status:
        yield "status", say(data.status)
    yield "size", say("size_value", skills=grouped(skills), cases=grouped(cases))
    if data.model:
        yield "model", quote(data.model)
    if data.executors:
        yield "executor", quote(", ".join(data.executors))
    if data.judges:
        yield "judges", "<br>".join(_judge(judge, say) for judge in data.judges)
    yield "repeats", say("repeats_value", runs=data.repeats, judged=data.judge_repeats)
    yield "pass_score", f"{data.pass_score:g}"
    if data.costs is not None:
        yield "costs", _costs(data.costs, say)
    if data.created_at:
        yield "created", _time(data.created_at)
    if data.scored_at:
        yield "scored", _time(data.scored_at)


def _time(time: str) -> str:
    return quote(time.replace("T", " ").replace("Z", " UTC"))


def _judge(judge: Judge, say: Translator) -> str:
    if judge.gap is None:
        return quote(judge.model)
    return say("judge_gap", model=judge.model, gap=figure(judge.gap))


def _costs(costs: Costs, say: Translator) -> str:
    parts = [say("calls_value", calls=grouped(costs.calls))]
    if costs.input_tokens is not None and costs.output_tokens is not None:
        parts.append(
            say("tokens_value", input=grouped(costs.input_tokens), output=grouped(costs.output_tokens))
        )
    if costs.usd is not None:
        partly = f" ({say('partly_priced', priced=grouped(costs.priced_calls))})"
        parts.append(f"${costs.usd:,.2f}{partly if costs.priced_calls < costs.calls else ''}")
    return "<br>".join(parts)


def _notices(data: ReportData, say: Translator) -> str:
    if not data.notices:
        return ""
    ordered = sorted(data.notices, key=lambda notice: not notice.loud)
    items = "".join(
        f"<li{' class=loud' if notice.loud else ''}>{say(notice.code, **notice.params)}</li>"
        for notice in ordered
    )
    return f'<ul class="notices" aria-label="{markup(say.plain("notices"))}">{items}</ul>'


def _footer(data: ReportData, say: Translator) -> str:
    parts = [quote(data.project_id)] if data.project_id else []
    if data.made_at:
        parts.append(f"{say('made')} {_time(data.made_at)}")
    return f"<footer>{' · '.join(parts)}</footer>"


# --- the ranking


def _ranking_section(data: ReportData, say: Translator) -> str:
    if not data.rows:
        return ""
    scale = scale_for(list(_drawn(data.rows)))
    note = say("ranking_note", low=f"{scale.low:g}", high=f"{scale.high:g}")
    detectable = "" if data.detectable is None else f" {say('detectable', points=figure(data.detectable))}"
    return (
        f'<section id="ranking"><h2>{say("ranking")}</h2><p class="verdict">{_verdict(data, say)}</p>'
        f'<p class="note">{note}{detectable}</p>{_strips(data.rows[:_MAX_STRIPS], scale, say)}'
        f"{_ranking_table(data, say)}</section>"
    )


def _drawn(rows: Sequence[ReportSkill]) -> Iterator[float]:
    for row in rows:
        if row.mean is not None:
            yield row.mean
        if row.interval is not None:
            yield from (row.interval.low, row.interval.high)


def _verdict(data: ReportData, say: Translator) -> str:
    ranked = [row for row in data.rows if row.mean is not None and not row.is_no_skill]
    if not ranked:
        return say("verdict_none")
    first = min(ranked, key=lambda row: (row.rank or len(ranked) + 1, -(row.mean or 0.0)))
    known = {"name": first.name, "mean": figure(first.mean)}
    if first.tie_group is None or first.interval is None or len(ranked) == 1:
        return say("verdict_plain", **known)
    tied = [row for row in ranked if row.tie_group == first.tie_group and row is not first]
    if not tied:
        return say("verdict_leads", **known)
    return f"{say('verdict_tied', **known, count=len(tied))} {_paired(tied, say)}".rstrip()


def _paired(tied: Sequence[ReportSkill], say: Translator) -> str:
    """Describe the ties that a comparison case by case can still tell from the first."""
    told = list[str]()
    for row in tied:
        span = row.behind_interval
        if row.behind is not None and span is not None and span.high < 0:
            ends = {"gap": figure(-row.behind), "low": figure(-span.high), "high": figure(-span.low)}
            told.append(say("verdict_paired", name=row.name, **ends))
    if told:
        return " ".join(told[:_MAX_PAIRED])
    return say("verdict_alike") if all(row.behind_interval is not None for row in tied) else ""


def _strips(rows: Sequence[ReportSkill], scale: Scale, say: Translator) -> str:
    items = list[str]()
    for at, row in enumerate(rows):
        new_group = at > 0 and rows[at - 1].tie_group != row.tie_group
        drawn = strip(_strip_label(row, say), row.mean, row.interval, scale, plain=row.is_no_skill)
        items.append(
            f'<li{" class=apart" if new_group else ""}><span class="name">{_place(row)}'
            f"{quote(skill_name(row, say))}{_tags(row, say)}</span>"
            f'<span class="drawn">{drawn}</span><span class="value">{figure(row.mean)}</span></li>'
        )
    foot = f'<div class="plot"><div><span></span><span class="drawn">{axis(scale)}</span></div></div>'
    return f'<ol class="plot">{"".join(items)}</ol>{foot}'


def _place(row: ReportSkill) -> str:
    return f'<span class="place">{row.rank if row.rank is not None else "–"}</span>'


def _tags(row: ReportSkill, say: Translator) -> str:
    tags = [f'<span class="tag">{say("no_skill")}</span>'] if row.is_no_skill else []
    if row.incomplete:
        tags.append(f'<span class="tag warn">{say("incomplete")}</span>')
    return "".join(tags)


def _strip_label(row: ReportSkill, say: Translator) -> str:
    known = {"name": skill_name(row, say), "mean": figure(row.mean)}
    if row.mean is None:
        return say.plain("strip_none", **known)
    if row.interval is None:
        return say.plain("strip_plain", **known)
    return say.plain("strip", **known, low=figure(row.interval.low), high=figure(row.interval.high))


def _ranking_table(data: ReportData, say: Translator) -> str:
    gains = any(row.gain is not None for row in data.rows)
    heads = [
        "rank",
        "skill",
        "average",
        "interval",
        "spread",
        "tie_group",
        "behind",
        *(["gain"] if gains else []),
    ]
    lines = list[list[str]]()
    for row in data.rows:
        name = f"{quote(skill_name(row, say))} <small>{quote(row.version)}</small>"
        line = [figure(row.rank, 0), name, figure(row.mean), _span(row.interval), figure(row.sd)]
        line += [
            "–" if row.tie_group is None else str(row.tie_group),
            _signed(row.behind, row.behind_interval),
        ]
        if gains:
            line.append(_signed(row.gain, row.gain_interval))
        lines.append([*line, f"{row.completed} / {row.failed} / {row.skipped}"])
    return _table(say("all_figures"), [say(head) for head in (*heads, "cases_done")], lines, named=1)


def _span(span: Interval | None) -> str:
    return "–" if span is None else f"{figure(span.low)} – {figure(span.high)}"


def _signed(value: float | None, span: Interval | None) -> str:
    if value is None:
        return "–"
    around = "" if span is None else f" ({_plus(span.low)} … {_plus(span.high)})"
    return f"{_plus(value)}{around}"


def _plus(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"  # adding zero makes -0.0 a plain one


def _table(caption: str, heads: Sequence[str], lines: Sequence[Sequence[str]], *, named: int) -> str:
    """Write a table of markup; the column ``named`` names the rows."""
    head = "".join(
        f'<th scope="col"{" class=start" if at == named else ""}>{text}</th>' for at, text in enumerate(heads)
    )
    body = "".join(f"<tr>{_cells(line, named)}</tr>\n" for line in lines)
    return (
        f'<div class="scroll" tabindex="0"><table><caption><span>{caption}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cells(line: Sequence[str], named: int) -> str:
    return "".join(
        f'<th scope="row">{text}</th>' if at == named else f"<td>{text}</td>" for at, text in enumerate(line)
    )


# --- the dimensions


def _dimensions_section(data: ReportData, say: Translator) -> str:
    scored = [row for row in data.rows if row.by_dimension]
    if not scored:
        return ""
    shown = [row for row in scored if not row.is_no_skill][:_MAX_BARS]
    shown += [row for row in scored if row.is_no_skill][:1]
    panes = "".join(_pane(name, shown, say) for name in DIMENSIONS)
    heads = ["skill", *DIMENSIONS, *CATEGORIES]
    lines = [
        [
            quote(skill_name(row, say)),
            *(figure(row.by_dimension.get(name)) for name in DIMENSIONS),
            *(figure(row.by_category.get(name)) for name in CATEGORIES),
        ]
        for row in scored
    ]
    table = _table(say("dimensions_caption"), [say(head) for head in heads], lines, named=0)
    return (
        f'<section id="dimensions"><h2>{say("dimensions")}</h2>'
        f'<p class="note">{say("dimensions_note", shown=len(shown))}</p>'
        f'<div class="panes">{panes}</div>{table}</section>'
    )


def _pane(name: str, rows: Sequence[ReportSkill], say: Translator) -> str:
    most = next(most for dimension, most in MAXIMA.items() if dimension == name)
    values = [next((v for d, v in row.by_dimension.items() if d == name), None) for row in rows]
    best = max((value for value in values if value is not None), default=None)
    items = list[str]()
    for row, value in zip(rows, values, strict=True):
        label = f"{skill_name(row, say)}: {figure(value)} / {most}"
        first = value is not None and best is not None and round(value, 1) == round(best, 1)
        items.append(
            f'<li{" class=first" if first else ""}><span class="name">{_place(row)}{quote(skill_name(row, say))}</span>'
            f'<span class="drawn">{bar(label, value, most)}</span><span class="value">{figure(value)}</span></li>'
        )
    return (
        f"<div><h3><span>{say(name)}</span><small>{say('of_points', points=most)}</small></h3>"
        f'<ol class="plot">{"".join(items)}</ol></div>'
    )
