"""Hypothesis strategies for the content of an instance's folder."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from personalab.archive.instances import InstanceFiles, LibraryEntry
from personalab.archive.veloca_lines import SessionLines
from personalab.story.summary import last_turns, opening_lines
from personalab.story.transcript import Line, Summary, Transcript, dump_line, parse_line
from tests.support.archive.random_lines import metadata_lines, some_lines, texts, unknown, values

STATE: dict[str, Any] = {
    "instance_id": "inst_001",
    "character_id": "char_a",
    "background_id": None,
    "current_session_id": "sess_001",
    "created_at": "2025-10-16T10:30:00Z",
    "plot_state": {"current_plot_index": 1, "current_status": "pending", "no_update_count": 0},
}
_documents = st.dictionaries(
    st.sampled_from(["persona_history.json", "sessions/sess_002.plots.json", "更多.json", "veloca.json"]),
    unknown,
    max_size=3,
)
_pieces = st.dictionaries(
    st.sampled_from(["sessions/sess_001.torn", "sessions/sess_002.jsonl.aside1", "note.txt"]),
    st.binary(max_size=30) | texts.map(lambda text: text.encode("utf-8", "replace")),
    max_size=3,
)
_entries = st.none() | st.builds(
    LibraryEntry,
    st.sampled_from(["char_a", "bg_b"]),
    unknown,
    st.dictionaries(st.sampled_from(["card.json", "lorebook.json"]), unknown, max_size=2),
)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[SessionLines, ...]:
    """Make sessions of which each may go on from the one before, as a summary leaves it."""
    made: list[SessionLines] = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        name, before = f"sess_{number:03}", made[-1].session_id if made else None
        opening: list[Line] = [draw(metadata_lines("inst_001", name, before))]
        if made and draw(st.booleans()):
            opening = _continued(draw, opening[0], made[-1])
        made.append(SessionLines(name, (*opening, *draw(st.lists(some_lines, max_size=8)))))
    return tuple(made)


def _continued(draw: st.DrawFn, metadata: Any, older: SessionLines) -> list[Line]:
    transcript = Transcript()
    transcript.extend(older.lines)
    kept = last_turns(transcript, draw(st.integers(0, 3)))
    opening = opening_lines(metadata, [], kept, "summary_first")
    summaries = draw(st.lists(st.builds(Summary, texts), max_size=2))
    if draw(st.booleans()):
        return [opening[0], *summaries, *opening[1:]]
    return [*opening, *summaries]


@st.composite
def instances(draw: st.DrawFn) -> InstanceFiles:
    """Make everything of an instance."""
    told = draw(sessions())
    more = {name: value for name, value in draw(unknown).items() if name not in STATE}
    state = {**STATE, **more, "current_session_id": draw(st.sampled_from(told)).session_id}
    persona = {"base_persona": draw(texts), "evolved_persona": draw(texts), "x": draw(values)}
    if draw(st.booleans()):
        persona["name"] = draw(texts)
    return InstanceFiles(
        state, persona, told, draw(_documents), draw(_pieces), draw(_entries), draw(_entries)
    )


def again(session: SessionLines) -> SessionLines:
    """Let a session go through its own file."""
    lines = tuple(parse_line(dump_line(line).rstrip(b"\n")) for line in session.lines)
    return SessionLines(session.session_id, lines)
