"""What is kept of a session's past gives the same prompts as a session that was just read."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from personalab.config import Config
from personalab.settings import read_settings
from personalab.storage.preferences import PreferenceFiles
from personalab.story.prompt import PromptMaterial, assemble, past_turns
from personalab.story.transcript import AssistantLine, Line, Summary, Transcript, UserLine
from personalab.texts import PROMPT_LANGUAGES, Language

TEMPLATES = {
    language: PreferenceFiles(Path("nowhere"), read_settings({}).shipped).templates(language)[0]
    for language in PROMPT_LANGUAGES
}
LONG = "很长的话。" * 12_000


def count_characters(text: str, most: int | None = None) -> int:
    """Count quickly."""
    return len(text)


_REPLIES = st.sampled_from(["Yes.", "你好。", "[PROGRESS:1:pending]", LONG])
_LINES = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.sampled_from(["Hello.", "再来一次。"])),
        st.tuples(st.just("reply"), _REPLIES),
        st.tuples(st.just("summary"), st.just("They met.")),
        st.tuples(st.just("copy"), st.just("")),
        st.tuples(st.just("preview"), st.just("What now?")),
    ),
    max_size=20,
)


def _line(kind: str, text: str, transcript: Transcript) -> Line:
    last = transcript.last
    if kind == "user":
        return UserLine(text, transcript.next_turn, "2026-01-01T00:00:00Z")
    if kind == "summary":
        return Summary(text)
    return AssistantLine(text, last.number if last else 0, "2026-01-01T00:00:00Z")


def _material(transcript: Transcript) -> PromptMaterial:
    return PromptMaterial(
        base_persona="A keeper.",
        evolved_persona="",
        world_setting="A coast.",
        outline=None,
        reminder=None,
        recalled=["Once."],
        turns=transcript.turns,
    )


@settings(max_examples=150, deadline=None)
@given(
    _LINES,
    st.lists(
        st.tuples(st.sampled_from(PROMPT_LANGUAGES), st.booleans(), st.sampled_from([50, 100_000])),
        min_size=1,
    ),
)
def test_growing_session_gives_the_prompts_of_a_fresh_one(
    given_lines: list[tuple[str, str]], ways: list[tuple[Language, bool, int]]
) -> None:
    grown, lines = Transcript(), list[Line]()
    for number, (kind, text) in enumerate(given_lines):
        if kind == "copy":
            grown = grown.copy()
        elif kind == "preview":
            seen = Transcript(grown.metadata, list(grown.turns), list(grown.trailing))
            seen.add(UserLine(text, seen.next_turn, ""))
            assemble(_material(seen), TEMPLATES["en"], count_characters, Config())
        else:
            lines.append(line := _line(kind, text, grown))
            grown.add(line)
        language, is_whole, limit = ways[number % len(ways)]
        config = Config(conversation_load_all=is_whole, conversation_max_tokens=100, max_total_tokens=limit)
        fresh = Transcript()
        fresh.extend(lines)
        ours, expected = (
            assemble(_material(one), TEMPLATES[language], count_characters, config) for one in (grown, fresh)
        )
        assert ours == expected


def test_only_new_turns_of_a_long_session_need_work() -> None:
    transcript = Transcript()
    for number in range(1, 11):
        transcript.add(UserLine("Hello.", number, ""))
        assemble(_material(transcript), TEMPLATES["en"], count_characters, Config())
        transcript.add(AssistantLine("Yes.", number, ""))
    assert past_turns(transcript.turns, TEMPLATES["en"], count_characters) == 9
    assert past_turns(transcript.turns, TEMPLATES["zh"], count_characters) == 0


def test_long_turn_is_not_kept_twice() -> None:
    transcript = Transcript()
    for number, said in enumerate(("Hello.", LONG, "Hello.", "Hello."), 1):
        transcript.add(UserLine(said, number, ""))
    assemble(_material(transcript), TEMPLATES["en"], count_characters, Config())
    assert past_turns(transcript.turns, TEMPLATES["en"], count_characters) == 1
