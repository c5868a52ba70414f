"""Huge turns neither stop the server nor fill the memory."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph.chat_turn import run_turn
from graph.preview import preview_prompt
from personalab.config import Config
from personalab.errors import StorageError, UserError
from personalab.providers.tokens import OfflineCounter
from personalab.retrieval.chroma import ChromaFolder
from personalab.services import Services
from personalab.settings import read_settings
from personalab.storage.preferences import PreferenceFiles
from personalab.story.prompt import FAR_OVER, PromptMaterial, assemble, check_budget
from personalab.story.recall import FINDABLE_CHARACTERS, QUERY_CHARACTERS, plan_lookup, turn_event
from personalab.story.transcript import AssistantLine, Transcript, UserLine, dump_line
from personalab.testing.scripted import ScriptedModel
from personalab.texts import PROMPT_LANGUAGES
from tests.support.web.fixtures import live_app

CHECKOUT = Path(__file__).resolve().parents[3]
MILLION = "The keeper said it was over. " * 35_000
COUNTER = OfflineCounter()
TEMPLATES = {
    language: PreferenceFiles(CHECKOUT / "nowhere", read_settings({}).shipped).templates(language)[0]
    for language in PROMPT_LANGUAGES
}


class Watched:
    """A counter that notes how many characters it was given, and whether the event loop ran meanwhile."""

    encoding = COUNTER.encoding

    def __init__(self) -> None:
        self.characters = 0
        self.on_loop = 0

    def count(self, text: str, most: int | None = None) -> int:
        """Count, and note where."""
        self.characters += len(text)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            self.on_loop += len(text)
        return COUNTER.count(text, most)


def told(services: Services, instance_id: str, *texts: str) -> None:
    """Let a story have turns whose two sides are these texts."""
    path = services.stories.session_path(instance_id, "sess_001")
    with path.open("ab") as file:
        for turn, text in enumerate(texts, start=1):
            file.write(dump_line(UserLine(text, turn, "")) + dump_line(AssistantLine(text, turn, "")))


def transcript_of(*texts: str) -> Transcript:
    transcript = Transcript()
    for turn, text in enumerate(texts, start=1):
        transcript.extend([UserLine(text, turn, ""), AssistantLine(text, turn, "")])
    transcript.add(UserLine("And now?", len(texts) + 1, ""))
    return transcript


def material(transcript: Transcript) -> PromptMaterial:
    return PromptMaterial("p", "", "", None, None, [], transcript.turns)


# --- counting


@pytest.mark.anyio
async def test_huge_turns_are_counted_away_from_the_event_loop(services: Services, instance: str) -> None:
    watched = services.counters["o200k_base"] = Watched()
    told(services, instance, *[MILLION] * 5)
    await preview_prompt(services, instance, "x" * 200_000)
    assert watched.characters > len(MILLION)
    assert watched.on_loop < 20_000


@pytest.mark.anyio
async def test_a_huge_turn_is_refused_without_blocking_the_event_loop(
    services: Services, instance: str, answer_with: Callable[..., ScriptedModel]
) -> None:
    answer_with("never asked")
    watched = services.counters["o200k_base"] = Watched()
    told(services, instance, *[MILLION] * 5)
    result = await run_turn(services, {"instance_id": instance, "user_input": "hello"})
    assert (result.get("error") or {}).get("code") == "prompt_too_long"
    assert watched.on_loop < 20_000


@pytest.mark.anyio
async def test_small_turns_are_still_counted_without_a_thread(services: Services, instance: str) -> None:
    watched = services.counters["o200k_base"] = Watched()
    told(services, instance, "Hello.", "Go on.")
    await preview_prompt(services, instance, "x")
    assert watched.on_loop == watched.characters > 0


def test_counting_stops_far_over_the_limit() -> None:
    watched = Watched()
    transcript = transcript_of(*[MILLION] * 25)
    prompt = assemble(material(transcript), TEMPLATES["zh"], watched.count, Config())
    total = prompt.token_report(0)["total"]
    assert not prompt.is_counted
    assert FAR_OVER * Config().max_total_tokens < total
    assert watched.characters < 4 * len(MILLION)  # not 50 of them
    with pytest.raises(UserError) as refused:
        check_budget(prompt, Config())
    assert refused.value.message("zh") == (f"Prompt总长度超过限制（{total}+ > 100000），请执行汇总或调整配置")
    again = Watched()
    assemble(material(transcript), TEMPLATES["zh"], again.count, Config())
    assert again.characters > 0  # another counter counts anew
    before = watched.characters
    assemble(material(transcript), TEMPLATES["zh"], watched.count, Config())
    assert watched.characters - before < 1_000  # the same one remembers also what it did not count to its end


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 90_000), min_size=1, max_size=6))
def test_a_prompt_that_is_not_far_over_is_counted_exactly(lengths: list[int]) -> None:
    texts = [MILLION[:length] for length in lengths]
    prompt = assemble(material(transcript_of(*texts)), TEMPLATES["en"], COUNTER.count, Config())
    exact = sum(COUNTER.count("".join(section.parts)) for section in prompt.sections)
    total = prompt.token_report(0)["total"]
    assert total == exact if prompt.is_counted else FAR_OVER * Config().max_total_tokens < total <= exact


def test_a_turn_counted_in_part_is_counted_again_for_a_larger_limit() -> None:
    transcript, watched = transcript_of(MILLION), Watched()
    small, large = Config(max_total_tokens=10_000), Config(max_total_tokens=200_000)
    first = assemble(material(transcript), TEMPLATES["en"], watched.count, small)
    second = assemble(material(transcript), TEMPLATES["en"], watched.count, large)
    exact = sum(COUNTER.count("".join(section.parts)) for section in second.sections)
    assert (first.is_counted, second.is_counted) == (False, True)
    assert second.token_report(0)["total"] == exact


# --- looking things up


def test_only_the_ends_of_a_long_input_are_searched_for(services: Services) -> None:
    module = services.preferences.read().recall
    lookup = plan_lookup("你还记得灯塔吗？" + "x" * 200_000 + " Do you remember the storm?", module)
    assert lookup is not None
    assert lookup.asked
    assert len(lookup.query) <= QUERY_CHARACTERS + 1
    assert "灯塔" in lookup.query
    assert "storm" in lookup.query


def test_a_huge_turn_is_findable_by_its_beginning() -> None:
    event = turn_event(transcript_of(MILLION).turns[0], "i", "s", "c", "")
    assert len(event.text) <= FINDABLE_CHARACTERS + 1
    assert event.text.count("The keeper") > 1_000


# --- reading


@pytest.mark.anyio
async def test_pages_of_a_session_are_limited_by_size(services: Services, instance: str) -> None:
    told(services, instance, *(f"{turn} {MILLION}" for turn in range(6)), *["short"] * 10)
    place: dict[str, Any] = {}
    pages: list[list[int]] = []
    address = f"/api/instances/{instance}/sessions/sess_001/turns"
    async with live_app(services) as live:
        while not pages or place["before"]:
            answer = await live.client.get(address, params=place)
            page = answer.json()
            pages.append([turn["turn"] for turn in page["turns"]])
            assert len(answer.content) < 4_500_000
            place = {"before": page["older"]}
    assert [turn for page in reversed(pages) for turn in page] == list(range(1, 17))
    assert pages[0] == list(range(7, 17))
    assert all(len(page) == 1 for page in pages[1:])


# --- importing

_IMPORT = """
import asyncio, sys
from pathlib import Path
from personalab.operations.importing import import_files
from personalab.services import open_services

def memory(name):
    rows = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(rows[name].split()[0]) * 1024

async def main():
    services = open_services()
    assert (await import_files(services, [Path(sys.argv[1])])).imported
    before = memory("VmRSS")
    assert (await import_files(services, [Path(sys.argv[2])])).imported
    print(memory("VmHWM") - before)

asyncio.run(main())
"""


def chat(path: Path, messages: int, text: str) -> Path:
    """Write a SillyTavern chat of equal messages."""
    rows: list[dict[str, Any]] = [{"user_name": "U", "character_name": path.stem, "chat_metadata": {}}]
    rows += [{"name": "x", "is_user": at % 2 == 0, "mes": text} for at in range(messages)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "text",
    [MILLION[:990_000], "灯塔看守在夜里说道，" * 33_000, MILLION[:990_000] + "😀"],
    ids=["english", "chinese", "one_emoji"],
)
def test_importing_huge_messages_takes_less_than_five_times_their_size(tmp_path: Path, text: str) -> None:
    small, large = chat(tmp_path / "small.jsonl", 2, "Hello."), chat(tmp_path / "large.jsonl", 50, text)
    ran = subprocess.run(
        [sys.executable, "-c", _IMPORT, str(small), str(large)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 5 * large.stat().st_size


# --- a clock that cannot be


@pytest.mark.anyio
async def test_clock_before_1970_is_a_clear_error(services: Services, instance: str) -> None:
    services.now = lambda: "1969-12-31T23:59:59Z"
    with pytest.raises(UserError) as refused:
        await run_turn(services, {"instance_id": instance, "user_input": "hello"})
    assert refused.value.code == "clock_too_early"
    assert "1969-12-31" in refused.value.message("en")
    async with live_app(services) as live:
        answer = await live.client.post(f"/api/instances/{instance}/turns", json={"text": "hello"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "clock_too_early")
    lines = services.stories.session_path(instance, "sess_001").read_text(encoding="utf-8").splitlines()
    assert [cast("dict[str, Any]", json.loads(line)).get("role") for line in lines] == [None]


def test_event_library_is_not_called_damaged_before_1970(tmp_path: Path) -> None:
    folder = ChromaFolder(
        tmp_path, shown="event_library", unreadable="library_unreadable", clock=lambda: -1.0
    )
    with pytest.raises(StorageError) as refused, folder.translated():
        folder.client()
    assert (refused.value.code, refused.value.params["now"]) == ("clock_too_early", "1969-12-31T23:59:59Z")
