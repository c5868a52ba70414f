"""Tests of the HTML report for any measured data."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from personalab.lab.reports.building import costs_of, judges_of, number, rank, result_notices
from personalab.lab.reports.data import Cell, Excerpt, Judge, ReportData, ReportNotice
from personalab.lab.reports.html import html_report
from personalab.lab.reports.plots import best_so_far, scale_for
from personalab.lab.reports.texts import WORDS, markup, one_line, shortened, visible
from personalab.texts import Language, languages
from tests.support.lab.report_samples import HOSTILE, arms, assembled, cases, iteration, large, matrix, whole

_VOID = {"meta", "link", "br"}


class Outline(HTMLParser):
    """Reads a page and notes its elements, their attributes and its text; one that is not closed is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def page_of(data: ReportData, language: Language = "en") -> Outline:
    return Outline(html_report(data, language))


# --- what it tells


def test_a_whole_project_shows_all_its_parts_in_order() -> None:
    page = page_of(whole())
    assert [attrs["id"] for tag, attrs in page.seen if tag == "section"] == [
        *("ranking", "dimensions", "iteration", "diff", "analysis", "matrix", "answers")
    ]
    links = [attrs["href"] for tag, attrs in page.seen if tag == "a"]
    ids = {attrs["id"] for _, attrs in page.seen if "id" in attrs}
    assert links
    assert {link.removeprefix("#") for link in links if link} <= ids


def test_a_project_that_has_not_run_says_so() -> None:
    found, baseline = arms(["A", "B"]), cases(2)
    page = page_of(assembled("New", found, baseline, [[None, None], [None, None]]))
    assert "Nothing has been scored yet." in page.text
    assert "4 of 4 tasks have no result" in page.text
    assert not any(attrs.get("id") == "answers" for _, attrs in page.seen)


def test_a_project_of_a_name_alone_is_a_page() -> None:
    assert "Only" in page_of(ReportData("Only")).text


@pytest.mark.parametrize("language", languages())
def test_no_word_of_ours_is_missing_in_either_language(language: Language) -> None:
    text = page_of(whole(), language).text
    # what has no words would stand there as its key
    keys = [key for key in WORDS if "_" in key and re.search(rf"\b{key}\b", text)]
    assert keys == []
    assert "{" not in text
    notices = [ReportNotice(code) for code in WORDS if code.startswith("notice_")]
    assert all(WORDS.template(notice.code, language) for notice in notices)


def test_the_verdict_names_ties_and_only_a_real_lead_is_one() -> None:
    found, baseline = arms(["A", "B"]), cases(8)
    same = matrix(found[:1], baseline)[0]
    alike = page_of(assembled("P", found, baseline, [same, same])).text
    assert "so they are ties" in alike
    assert "shows no difference either" in alike
    apart = matrix(found, baseline)
    low = [
        replace(cell, scores={d: v / 2 for d, v in cell.scores.items()})
        for cell in apart[1]
        if cell and cell.scores
    ]
    assert "A leads with" in page_of(assembled("P", found, baseline, [apart[0], low])).text
    assert "A has the highest score" in page_of(assembled("P", found[:1], baseline, apart[:1])).text


def test_a_tie_that_a_comparison_case_by_case_tells_apart_is_told_with_its_lead() -> None:
    found, baseline = arms(["A", "B"]), cases(8)
    [first] = matrix(found[:1], baseline)
    uneven = [
        replace(cell, scores={name: value * (0.4 + 0.07 * at) for name, value in cell.scores.items()})
        for at, cell in enumerate(first)
        if cell and cell.scores
    ]
    below = [
        replace(cell, scores={name: value * 0.97 for name, value in cell.scores.items()})
        for cell in uneven
        if cell.scores
    ]
    data = assembled("P", found, baseline, [uneven, below])
    assert data.rows[0].tie_group == data.rows[1].tie_group
    told = page_of(data).text
    assert "so they are ties" in told
    assert re.search(r"Compared case by case it leads B by \d\.\d \(\d\.\d to \d\.\d\)", told)
    assert "no difference either" not in told


def test_the_arm_without_a_skill_stands_last_and_has_no_rank() -> None:
    rows = whole().rows
    assert [row.is_no_skill for row in rows] == [False] * 5 + [True]
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5, None]
    assert rows[0].gain is not None
    assert rows[0].gain > 0
    assert "no-skill arm" in page_of(whole()).text


def test_who_is_behind_has_a_negative_difference_with_its_interval_in_order() -> None:
    second = whole().rows[1]
    assert second.behind is not None
    assert second.behind_interval is not None
    assert second.behind_interval.low <= second.behind <= second.behind_interval.high <= 0
    assert whole().rows[0].behind is None


def test_two_versions_of_one_skill_are_two_rows() -> None:
    first = arms(["A"])[0]
    found, baseline = [first, replace(first, version="v2")], cases(3)
    data = assembled("P", found, baseline, matrix(found, baseline))
    assert sorted(row.version for row in data.rows) == ["v1", "v2"]
    assert data.rows[0].mean != data.rows[1].mean


def test_every_place_of_the_matrix_shows_its_state_by_a_sign() -> None:
    page = html_report(whole(), "en")
    table = page[page.index('class="matrix"') : page.index("</table>", page.index('class="matrix"'))]
    cells = re.findall(r"<td class=(\w+)(?: title=\"([^\"]*)\")?>(?:<a [^>]*>)?([^<]*)", table)
    assert len(cells) == 6 * 12
    assert {(kind, title, sign) for kind, title, sign in cells if title} == {
        ("x", "failed", "✕"),
        ("x", "broken file", "!"),
        ("u", "skipped", "–"),
        ("u", "not run", "·"),
    }
    assert all(
        re.fullmatch(r"\d+(\.\d)?", sign) for kind, title, sign in cells if not title and kind[0] == "h"
    )


def test_what_is_below_the_pass_score_is_marked() -> None:
    data = replace(whole(), pass_score=99.0)
    assert html_report(data, "en").count(">▾") > 60
    assert ">▾" not in html_report(replace(data, pass_score=0.0), "en")


def test_an_unreal_executor_is_shown_loudly_and_first() -> None:
    for version in ("0.0.0-fake", "0.0.0-rehearsal", "0.0.0-scripted"):
        found = result_notices((), (), ["2.1.80 (Claude Code)", version])
        assert found == [ReportNotice("notice_rehearsal", {"versions": version}, loud=True)]
        data = ReportData("P", notices=(ReportNotice("notice_no_summary"), *found))
        page = html_report(data, "en")
        assert 0 < page.index("<li class=loud>") < page.index("not the final ranking")
    assert result_notices((), (), ["2.1.80 (Claude Code)"]) == []


def test_cut_texts_say_how_much_is_left_out() -> None:
    data = whole()
    long = replace(data.cells[0][0] or Cell("completed"), output=Excerpt("a" * 3000).cut(2000))
    cells = ((long, *data.cells[0][1:]), *data.cells[1:])
    page = page_of(replace(data, cells=cells))
    assert "… 1,000 more characters" in page.text
    assert "a" * 2000 in page.text
    assert "a" * 2001 not in page.text


def test_a_judge_is_told_with_its_gap() -> None:
    controls: dict[str, Any] = {
        "judges": {"x": {"model": "m", "gap": 30.5, "passed": True}, "y": [], "z": {"model": ["m"]}}
    }
    assert judges_of(["m", "n"], controls) == (Judge("m", 30.5, True), Judge("n"))
    assert judges_of(["m"], {"judges": 3}) == (Judge("m"),)


def test_costs_count_each_call_once_and_only_numbers() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    calls = [
        {"call_id": "a", "status": "ok", "usage": usage, "cost_usd": 0.5},
        {"call_id": "a", "status": "ok", "usage": usage, "cost_usd": 0.5},
        {"call_id": "b", "status": "failed", "usage": None, "cost_usd": float("nan")},
        {"call_id": "c", "status": "ok", "usage": {"input_tokens": True}, "cost_usd": "1"},
    ]
    costs = costs_of(calls)
    assert costs is not None
    assert (costs.calls, costs.failed_calls, costs.usd, costs.priced_calls) == (3, 1, 0.5, 1)
    assert (costs.input_tokens, costs.output_tokens) == (10, 5)
    assert costs_of([]) is None
    assert number(float("inf")) is None


def test_the_best_so_far_never_falls() -> None:
    found = best_so_far(iteration())
    values = [value for value in found if value is not None]
    assert len(values) == 6
    assert values == sorted(values)


@given(st.lists(st.floats(-50, 150), max_size=20))
def test_an_axis_holds_its_values_and_stays_between_0_and_100(values: list[float]) -> None:
    scale = scale_for(values)
    assert 0 <= scale.low < scale.high <= 100
    inside = [min(max(value, 0), 100) for value in values]
    assert all(scale.low <= value <= scale.high for value in inside)
    assert 3 <= len(scale.ticks()) <= 8
    assert scale.ticks()[-1] == pytest.approx(scale.high)


# --- what it lets nobody do


def test_a_page_runs_nothing_and_fetches_nothing() -> None:
    page = html_report(whole(HOSTILE), "en")
    found = Outline(page)
    tags = {tag for tag, _ in found.seen}
    assert not tags & {"script", "img", "iframe", "object", "embed", "form", "input", "base", "foreignobject"}
    for tag, attrs in found.seen:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "style", "srcdoc")]
        assert tag == "link" or (attrs.get("href") or "#").startswith("#")
    policy = next(attrs["content"] for _, attrs in found.seen if attrs.get("http-equiv"))
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in style
    assert "@import" not in style


def test_a_strangers_words_are_not_filled_in() -> None:
    data = whole()
    rows = (replace(data.rows[0], name="{mean} {count}"), *data.rows[1:])
    assert "{mean} {count} has the highest score" in page_of(replace(data, rows=rows)).text


@given(st.text())
def test_any_text_is_shown_whole_and_as_text(text: str) -> None:
    page, known = page_of(_named(f"x{text}")), page_of(_named("x"))
    assert [tag for tag, _ in page.seen] == [tag for tag, _ in known.seen]
    assert page.text.count(one_line(f"x{text}")) >= 4


def _named(text: str) -> ReportData:
    """A report with one text in several places."""
    notice = ReportNotice("notice_broken", {"file": text, "reason": text})
    return ReportData(text, description=text, model=text, notices=(notice,))


@given(st.text(alphabet=st.characters(codec=None)))
def test_what_is_visible_has_no_character_that_acts(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]", shown
    )
    if not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e-\uffff\U000e0000-\U000e007f]", text):
        assert shown == text
    assert not set("<>\"'") & set(markup(text))


def test_bidi_controls_are_marks_and_right_to_left_letters_stay() -> None:
    assert visible("a\u202eb\u2066c\u200fd שלום") == "a⟦U+202E⟧b⟦U+2066⟧c⟦U+200F⟧d שלום"


def test_a_name_is_shortened_by_its_width() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
    assert shortened("一二三四", 6) == "一二…"


# --- what it costs


def test_a_large_matrix_shows_scores_only_and_stays_small() -> None:
    data = large(200, 500)
    page = html_report(data, "zh")
    assert len(page.encode()) < 20_000_000
    assert "100,000" in page
    assert page.count("<td class=") == 100_000
    assert "<details" not in page


def test_many_texts_are_cut_alike_so_that_every_case_has_some() -> None:
    page = html_report(large(100, 200, "字" * 2000), "en")
    assert page.count('<details id="c') == 200
    assert page.count("more characters") == 2 * 100 * 200
    assert len(page.encode()) < 20_000_000


def test_texts_that_grow_when_shown_end_at_the_limit() -> None:
    page = html_report(large(100, 200, "\x01" * 2000), "en")
    assert 0 < page.count('<details id="c') < 200
    assert "the texts are in the result files" in page
    assert len(page.encode()) < 20_000_000


def test_a_ranking_of_nothing_is_empty() -> None:
    assert rank([], [], []).rows == ()
