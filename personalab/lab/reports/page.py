"""The page skeleton, stylesheet and security policy of an HTML report, without scripts or external requests."""

from __future__ import annotations

import base64
import hashlib

from personalab.i18n import ABOUT, Language


def page(title: str, body: str, language: Language) -> str:
    """Return a whole page with a body; ``title`` and ``body`` are markup already."""
    tag = ABOUT.say("tag", language)
    return (
        f'<!doctype html>\n<html lang="{tag}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        # without an icon a browser asks the server for one
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


STYLE = """
:root {
  color-scheme: light dark;
  --paper: light-dark(#fdfcfa, #1d1c1a);
  --inset: light-dark(#f4f1eb, #272522);
  --ink: light-dark(#211f1b, #ece8e1);
  --muted: light-dark(#5f5a51, #b0a99d);
  --line: color-mix(in srgb, var(--ink) 18%, transparent);
  --track: color-mix(in srgb, var(--ink) 10%, transparent);
  --here: light-dark(#2f5d8c, #8fb8e6);
  --done: light-dark(#2c7355, #76c9a0);
  --heat: light-dark(#3f9a94, #2f8f89);
  --middle: light-dark(#ad6c1f, #dfa65c);
  --warn: light-dark(#7b4a00, #f2cb82);
  --warn-paper: light-dark(#fcf2dc, #362b16);
  --error: light-dark(#9c231c, #ffb4aa);
  --error-paper: light-dark(#fdeceb, #41211d);
  --done-paper: light-dark(#e6f3ec, #1d3329);
  --round: 8px;
}
* { box-sizing: border-box; margin: 0; }
html { scroll-padding-top: 16px; }
body {
  max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; color: var(--ink); background-color: var(--paper);
  font: 15px/1.55 system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
:focus-visible { outline: 2px solid var(--here); outline-offset: 2px; }
:target { outline: 2px solid var(--here); outline-offset: 3px; border-radius: 4px; }
a { color: var(--here); }
h1, h2 {
  font-family: ui-serif, Georgia, "Songti SC", "Noto Serif CJK SC", serif; font-weight: 600;
  line-height: 1.25;
}
h1 { font-size: 30px; }
h2 { font-size: 21px; margin-bottom: 4px; }
h3 { font-size: 15px; font-weight: 600; }
header > p { margin-top: 8px; max-width: 70ch; white-space: pre-line; }
.eyebrow { color: var(--muted); margin: 0 0 4px; }
.muted, .note { color: var(--muted); }
.note { font-size: 13px; margin-bottom: 16px; max-width: 80ch; }
.verdict { margin: 4px 0 8px; font: 18px/1.45 ui-serif, Georgia, "Songti SC", "Noto Serif CJK SC", serif; }
.verdict bdi { font-weight: 600; }
section { margin-top: 48px; }
nav {
  display: flex; flex-wrap: wrap; gap: 4px 20px; margin-top: 20px; padding-top: 12px;
  border-top: 1px solid var(--line);
}
nav a { text-decoration: none; }
nav a:hover { text-decoration: underline; }
ul, ol { list-style: none; padding: 0; }
.tag {
  display: inline-block; font-size: 12px; line-height: 18px; padding: 0 7px; border-radius: 9px; white-space: nowrap;
  color: var(--muted); background-color: var(--inset);
}
.tag[class*=" h"] { color: var(--ink); }
.tag.warn { color: var(--warn); background-color: var(--warn-paper); }

.facts {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 14px 24px;
  margin-top: 24px; padding: 16px 20px; border-radius: var(--round); background-color: var(--inset);
}
.facts dt { font-size: 12px; color: var(--muted); }
.facts dd { margin: 0; font-size: 14px; }

.notices { display: grid; gap: 8px; margin-top: 20px; }
.notices li {
  padding: 8px 14px; border-radius: var(--round); color: var(--warn); background-color: var(--warn-paper);
}
.notices li::before { content: "! " / ""; font-weight: 700; }
.notices li.loud {
  color: var(--error); background-color: var(--error-paper); border: 2px solid; font-weight: 600;
}

.plot > li, .plot > div {
  display: grid; grid-template-columns: minmax(0, 300px) minmax(0, 1fr) 52px; gap: 0 18px; align-items: center;
}
.plot .name { display: flex; gap: 8px; align-items: baseline; min-width: 0; }
.plot .name bdi { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; }
.plot .place { color: var(--muted); min-width: 1.6em; text-align: end; }
.plot .value { text-align: end; font-weight: 600; }
.plot .tied { border-inline-start: 3px solid var(--here); }
.plot li + .apart { margin-top: 6px; padding-top: 6px; border-top: 1px dashed var(--line); }
svg { display: block; width: 100%; overflow: visible; forced-color-adjust: none; }
svg text { font-size: 12px; fill: var(--muted); }
.grid { stroke: var(--line); }
.whisker { stroke: var(--here); stroke-width: 2; }
.dot { fill: var(--here); }
.bare { stroke: var(--muted); stroke-width: 2; }
.square { fill: var(--paper); stroke: var(--muted); stroke-width: 2; }
.rail { fill: var(--track); }
.bar { fill: var(--heat); }
.first .bar { fill: var(--here); }
.panes .value { font-weight: 400; }
.panes .first .value { font-weight: 700; }
.hollow { fill: var(--paper); stroke: var(--muted); stroke-width: 1.5; }
.won { fill: var(--done); }
.best { stroke: var(--done); stroke-width: 2.5; stroke-linecap: round; }
.begin { stroke: var(--muted); stroke-dasharray: 4 4; }
.fair { fill: var(--middle); }
.fair-line { stroke: var(--middle); stroke-width: 2; }
.progress { padding: 12px 14px 30px 36px; margin-top: 8px; }

.panes {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 24px 36px;
}
.panes h3 { display: flex; justify-content: space-between; gap: 8px; margin-bottom: 6px; }
.panes h3 small { font-weight: 400; color: var(--muted); }
.panes .plot > li {
  grid-template-columns: minmax(0, 1fr) minmax(0, 1fr) 34px; gap: 0 10px; font-size: 13px;
  line-height: 24px;
}

.scroll {
  overflow: auto; max-width: 100%; border: 1px solid var(--line); border-radius: var(--round);
  margin-top: 8px;
}
.tall { max-height: 80vh; }
table { border-collapse: separate; border-spacing: 0; font-size: 13px; min-width: 100%; }
caption { text-align: start; padding: 8px 12px; color: var(--muted); }
caption > span {
  display: inline-block; position: sticky; inset-inline-start: 12px; max-width: min(1000px, 100vw - 60px);
}
th, td { padding: 5px 10px; text-align: end; border-top: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; background-color: var(--paper); }
th[scope=row], th.start, td.start { text-align: start; }
th[scope=row] {
  position: sticky; inset-inline-start: 0; z-index: 1; max-width: 260px; overflow: hidden;
  text-overflow: ellipsis;
}
thead th { vertical-align: bottom; }
.tall thead th { position: sticky; top: 0; z-index: 2; }
.tall thead th:first-child { z-index: 3; inset-inline-start: 0; }
th[scope=row] small {
  display: block; font-weight: 400; color: var(--muted); overflow: hidden; text-overflow: ellipsis;
}
.matrix td {
  text-align: center; min-width: 48px; border-inline-start: 1px solid var(--paper);
  border-top-color: var(--paper);
}
.matrix td a { color: inherit; text-decoration: none; display: block; margin: -5px -10px; padding: 5px 10px; }
.matrix td a:hover { text-decoration: underline; }
.matrix thead th {
  max-width: 120px; white-space: normal; text-align: center; font-weight: 400; min-width: 72px;
}
.h0 { background-color: color-mix(in srgb, var(--heat) 6%, var(--paper)); }
.h1 { background-color: color-mix(in srgb, var(--heat) 12%, var(--paper)); }
.h2 { background-color: color-mix(in srgb, var(--heat) 18%, var(--paper)); }
.h3 { background-color: color-mix(in srgb, var(--heat) 24%, var(--paper)); }
.h4 { background-color: color-mix(in srgb, var(--heat) 30%, var(--paper)); }
.h5 { background-color: color-mix(in srgb, var(--heat) 36%, var(--paper)); }
.h6 { background-color: color-mix(in srgb, var(--heat) 42%, var(--paper)); }
.h7 { background-color: color-mix(in srgb, var(--heat) 48%, var(--paper)); }
.h8 { background-color: color-mix(in srgb, var(--heat) 54%, var(--paper)); }
.h9 { background-color: color-mix(in srgb, var(--heat) 60%, var(--paper)); }
.b { color: var(--warn); background-color: var(--warn-paper); }
.x { color: var(--error); background-color: var(--error-paper); font-weight: 700; }
.u { color: var(--muted); }

details { border-top: 1px solid var(--line); }
.answers > details:last-child { border-bottom: 1px solid var(--line); }
summary {
  cursor: pointer; padding: 7px 4px; display: flex; flex-wrap: wrap; gap: 0 12px; align-items: baseline;
  list-style: none;
}
summary::-webkit-details-marker { display: none; }
summary::before { content: "›" / ""; color: var(--muted); width: 10px; text-align: center; }
details[open] > summary::before { rotate: 90deg; }
summary:hover { background-color: var(--inset); }
summary .end { margin-inline-start: auto; }
details > div { padding: 4px 0 16px 22px; }
pre + details, p + details { margin-top: 12px; }
details details > div { padding-bottom: 10px; }
.label { font-size: 12px; color: var(--muted); margin: 8px 0 2px; }
pre {
  font: 13px/1.6 ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK SC", monospace; white-space: pre-wrap;
  max-height: 360px; overflow: auto; padding: 8px 12px; border-radius: var(--round); background-color: var(--inset);
}
.parts { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; }
.parts b { font-weight: 600; }

.diff { font: 13px/1.6 ui-monospace, Menlo, Consolas, "Noto Sans Mono CJK SC", monospace; }
.diff table { width: 100%; font-size: 13px; table-layout: fixed; }
.diff caption { font-family: system-ui, sans-serif; }
.diff td { white-space: pre-wrap; text-align: start; border: 0; padding: 0 10px 0 4px; }
.diff td:first-child { width: 26px; padding: 0; text-align: center; vertical-align: top; user-select: none; }
.diff .gone { background-color: var(--error-paper); }
.diff .new { background-color: var(--done-paper); }
.diff .skipped { color: var(--muted); background-color: var(--inset); }
ins, del { text-decoration: none; font-weight: 600; border-radius: 2px; }
del {
  color: var(--error); text-decoration: line-through;
  background-color: color-mix(in srgb, var(--error) 12%, var(--error-paper));
}
ins {
  color: light-dark(#1d5a40, #8fdcb4); text-decoration: underline;
  background-color: color-mix(in srgb, var(--done) 10%, var(--done-paper));
}
.cards { display: grid; gap: 16px; margin-top: 8px; }
.cards h4 { font-size: 14px; font-weight: 600; margin-bottom: 4px; }
.pairs { display: flex; flex-wrap: wrap; gap: 8px 32px; margin-bottom: 8px; }
.pairs dt { font-size: 12px; color: var(--muted); }
.pairs dd { margin: 0; font-size: 17px; font-weight: 600; }
footer {
  margin-top: 56px; padding-top: 12px; border-top: 1px solid var(--line); font-size: 12px;
  color: var(--muted);
}

@media (max-width: 640px) {
  body { padding: 20px 16px 48px; }
  h1 { font-size: 24px; }
  .plot:not(.panes *) > li, .plot:not(.panes *) > div { grid-template-columns: minmax(0, 1fr) 52px; padding: 5px 0; }
  .plot:not(.panes *) .drawn { grid-column: 1 / -1; grid-row: 2; padding: 0 8px; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); padding: 14px; gap: 12px 16px; }
  th[scope=row] { max-width: 40vw; }
  .matrix td { min-width: 40px; }
}
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 11px; }
  nav { display: none; }
  .scroll, pre, .tall { overflow: visible; max-height: none; }
  th[scope=row], .tall thead th { position: static; }
  .h0, .h1, .h2, .h3, .h4, .h5, .h6, .h7, .h8,
  .h9, .b, .x, .notices li, .diff tr, ins, del, .facts, svg { print-color-adjust: exact; }
  details::details-content { content-visibility: visible; block-size: auto; }
  section { break-inside: auto; margin-top: 24px; }
  li, tr, .cards > li { break-inside: avoid; }
}
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
)
