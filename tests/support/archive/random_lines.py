"""Hypothesis strategies for the lines of a session, including unusual ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from personalab.story.transcript import (
    NO_REPLY,
    REPLY_FLAGS,
    AssistantLine,
    Line,
    Metadata,
    OtherLine,
    Summary,
    UserLine,
)

NOW = "2025-10-16T10:30:00Z"

texts = st.text(st.characters(), max_size=12)  # lone surrogates are among them
names = st.one_of(st.sampled_from(["personalab", "sillytavern", "extra", "type", "x"]), texts)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=5,
)
unknown = st.dictionaries(names, values, max_size=3)

counts = st.integers(0, 4)
stamps = st.one_of(st.sampled_from(["", NOW, "2025-10-16T10:31:05Z", "then"]), texts)
MARKER = "[PROGRESS:1:completed]"
_odd = [NO_REPLY, "", "so far\n(系统错误: x)", "(System error: x)", "a\n\n(System"]
_marked = [MARKER, f"Go.\n\n{MARKER}", f"Go {MARKER} on\n", f"a{MARKER}\n(System error: x)", "[PROGRESS:"]
_thinking = ["<think>why</think>So.", "So</think>", "<thinking>not yet", f"<think>{MARKER}</think>a {MARKER}"]
contents = st.one_of(texts, st.sampled_from([*_odd, *_marked, *_thinking]))
thoughts = st.one_of(st.just(""), texts, st.sampled_from([MARKER, "why\n\nso", " "]))


def extras(*known: str) -> st.SearchStrategy[dict[str, Any]]:
    """Make unknown fields that are none of a line's own."""
    more = st.dictionaries(
        st.one_of(
            st.sampled_from(["sillytavern", "sillytavern_added", "personalab", "swipe", "veloca"]), texts
        ),
        values,
        max_size=2,
    )
    taken = {"type", "role", *known}
    return more.map(lambda found: {name: value for name, value in found.items() if name not in taken})


said_fields = ("content", "turn", "timestamp", "reasoning", *REPLY_FLAGS)
some_lines: st.SearchStrategy[Line] = st.one_of(
    st.builds(UserLine, contents, counts, stamps, extras(*said_fields)),
    st.builds(
        AssistantLine,
        contents,
        counts,
        stamps,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        extras(*said_fields),
        truncated=st.booleans(),
        reasoning=thoughts,
    ),
    st.builds(AssistantLine, contents, counts, stamps, reasoning=thoughts),
    st.builds(Summary, contents, extras("content")),
    st.builds(OtherLine, unknown.map(lambda found: {**found, "type": "other"})),
    st.builds(Metadata, texts, texts, stamps, st.none()),
)


def metadata_lines(instance_id: str, session_id: str, before: str | None) -> st.SearchStrategy[Metadata]:
    """Make the first line of a session."""
    return st.builds(
        Metadata,
        st.just(instance_id),
        st.just(session_id),
        stamps,
        st.sampled_from([None, before]),
        extras("instance_id", "session_id", "created_at", "continued_from"),
    )
