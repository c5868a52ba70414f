"""How well a model plays: scripted stories on the configured model, with faults counted without a judge.

``python -m bench play --model local:model.gguf --prompt shipped --repeats 3 --json play.json``. Every repeat of a story
runs in a fresh data root. Sampling is as shipped, but replies are cut at ``--max-tokens`` (160), so that a run is
affordable. ``--prompt bare`` plays with the source's bare prompt: no role instruction, no reminder, and a marker
instruction of two lines. ``--templates FOLDER`` (with ``zh/`` and ``en/``) replaces templates, to try a prompt of your
own. ``--at-once`` plays several stories at the same time, which is faster in total and slower to the first token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

from bench import play_checks as checks
from bench.play_questions import Answer, as_dicts, ask_all
from bench.play_stories import STORIES, UNSEEN, Story
from bench.table import Figure, show
from graph.chat_turn import stream_turn
from personalab.operations.instances import new_instance
from personalab.providers.chat_models import open_model
from personalab.providers.model_settings import ModelSettings
from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.storage.seed import EARLIER
from personalab.story.transcript import NO_REPLY
from personalab.texts import Language, prompt_language

MAX_TOKENS = 160
ANSWER_TOKENS = 1_024
"""Answers in JSON are cut later than replies."""
VALID_SHARE = 95.0
"""Goal for the answers to each question, in percent."""
_STORY_CONTEXT = 4_096
"""Tokens a ``local:`` model keeps in mind of each story that is played at the same time."""
_PLAYED = "played"


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply and what was found in it."""

    story: str
    language: str
    repeat: int
    turn: int
    said: str
    content: str
    status: str
    first_token_seconds: float | None
    seconds: float
    output_tokens: int | None
    asked_again: bool
    """Whether the first try had no words, so that the program asked once more."""
    marker_only: bool
    """Whether the reply had no words in the end."""
    wrong_language: bool
    assistant_phrases: list[str]
    player_lines: list[str]
    repeated: bool
    copied: bool
    """Whether it repeats the instructions of the prompt."""
    thought_leaks: list[str]
    markers: list[tuple[int, str]]
    has_action: bool


@dataclass(frozen=True, slots=True)
class Options:
    """What is played."""

    model: str
    prompt: str
    repeats: int
    turns: int
    stories: tuple[Story, ...]
    max_tokens: int
    temperature: float | None
    threads: int
    at_once: int
    templates: str
    """A folder whose templates replace the shipped ones; empty: none."""
    questions: int
    """Tries at each question that is answered in JSON."""
    question_language: str
    question_names: tuple[str, ...]
    """Which of the questions are asked; empty: all."""


def main(argv: Sequence[str]) -> int:
    """Play, print the tables and write the replies; the exit code says whether every goal was met."""
    args = _parser().parse_args(argv)
    known = {**STORIES, **UNSEEN}
    names = args.stories.split(",") if args.stories else list(STORIES)
    options = Options(
        model=args.model or read_settings().model,
        prompt=args.prompt,
        repeats=args.repeats,
        turns=args.turns,
        stories=tuple(known[name] for name in names),
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        threads=args.threads,
        at_once=args.at_once,
        templates=str(args.templates or ""),
        questions=args.questions,
        question_language=args.question_language,
        question_names=tuple(args.question_names.split(",")) if args.question_names else (),
    )
    replies, answers = asyncio.run(_measure(options, args.json))
    print(f"\n{options.model}, prompt {options.prompt}, replies of at most {options.max_tokens} tokens")
    figures = [*summary(replies), *valid_answers(answers)]
    show("play", figures)
    for story in options.stories:
        show(f"play: {story.name}", summary([reply for reply in replies if reply.story == story.name]))
    missed = [figure for figure in figures if not figure.met]
    print(f"\n{len(missed)} goals missed" if missed else "\nall goals met")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench play", description=__doc__)
    parser.add_argument("--model", help="provider:model; else PERSONALAB_MODEL")
    parser.add_argument("--prompt", choices=("shipped", "bare"), default="shipped")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--stories", help=f"of {', '.join((*STORIES, *UNSEEN))}; else the first three")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--threads", type=int, default=0, help="of a local: model; else one per core")
    parser.add_argument(
        "--at-once", type=int, default=1, help="stories, or tries at a question, at the same time"
    )
    parser.add_argument("--templates", type=Path, help="folder of templates that replace the shipped ones")
    parser.add_argument("--questions", type=int, default=0, help="tries at each question answered in JSON")
    parser.add_argument("--question-language", choices=("zh", "en"), default="zh")
    parser.add_argument("--question-names", help='such as "analyse,case drafts"; else all')
    parser.add_argument("--json", type=Path, help="where to write all replies")
    return parser


async def _measure(options: Options, file: Path | None) -> tuple[list[Reply], list[Answer]]:
    replies = await _play_all(options, file)
    answers: list[Answer] = []
    if options.questions:
        with tempfile.TemporaryDirectory() as folder:
            services = _open(folder, options, ANSWER_TOKENS)
            answers = await ask_all(
                services,
                options.model,
                options.question_language,
                options.questions,
                names=options.question_names,
                at_once=options.at_once,
            )
            await services.close()
    if file is not None:
        _write(file, options, replies, answers)
    return replies, answers


def _open(folder: str, options: Options, max_tokens: int) -> Services:
    services = open_services(read_settings({"PERSONALAB_DATA": folder, "PERSONALAB_MODEL": options.model}))
    settings = ModelSettings(
        api_key=read_settings().openai_api_key,
        base_url=read_settings().openai_base_url,
        max_output_tokens=max_tokens,
        temperature=options.temperature,
        local_threads=options.threads,
        local_context=_STORY_CONTEXT * max(2, options.at_once),
        first_token_seconds=1_800.0,
        stall_seconds=600.0,
    )
    services.models[options.model] = open_model(options.model, settings=settings)
    return services


async def _play_all(options: Options, file: Path | None) -> list[Reply]:
    replies: list[Reply] = []
    places = asyncio.Semaphore(options.at_once)

    async def play(story: Story, repeat: int) -> None:
        async with places:
            async for reply in _play(story, repeat, options):
                replies.append(reply)
                _note(reply)
                if file is not None:
                    _write(file, options, replies)

    async with asyncio.TaskGroup() as group:
        for repeat in range(1, options.repeats + 1):
            for story in options.stories:
                group.create_task(play(story, repeat))
    return replies


async def _play(story: Story, repeat: int, options: Options) -> AsyncGenerator[Reply]:
    with tempfile.TemporaryDirectory() as folder:
        services = _open(folder, options, options.max_tokens)
        await _prepare(services, story, options)
        earlier: list[str] = []
        for turn, said in enumerate(story.lines[: options.turns], start=1):
            reply = await _reply(services, story, said, earlier, (repeat, turn))
            earlier.append(reply.content)
            yield reply
        await services.close()


async def _prepare(services: Services, story: Story, options: Options) -> None:
    services.preferences.change({"preferences.language": story.language})
    if story.character is not None:
        services.stories.save_character(story.character)
    if story.background is not None:
        services.stories.save_background(story.background)
    templates = services.settings.data_root / "prompt_templates"
    if options.prompt == "bare":
        for name, texts in EARLIER.items():
            if 1 in texts:
                (templates / f"{name}.txt").write_text(texts[1] + "\n", encoding="utf-8")
    if options.templates:
        shutil.copytree(options.templates, templates, dirs_exist_ok=True)
    await new_instance(services, story.character_id, story.background_id, _PLAYED)


async def _reply(
    services: Services, story: Story, said: str, earlier: Sequence[str], place: tuple[int, int]
) -> Reply:
    start, first = time.perf_counter(), None
    result: dict[str, Any] = {}
    async for part in stream_turn(services, {"instance_id": _PLAYED, "user_input": said}):
        if part.get("type") == "token" and first is None:
            first = time.perf_counter() - start
        if "type" not in part:
            result = cast("dict[str, Any]", part)
    content, language = str(result.get("reply") or ""), story.language
    usage: dict[str, Any] = result.get("usage") or {}
    names = ("Alserqi", "Victor", "Maren", "Tam", "Ansgar")
    return Reply(
        story=story.name,
        language=language,
        repeat=place[0],
        turn=place[1],
        said=said,
        content=content,
        status=result.get("status", ""),
        first_token_seconds=first,
        seconds=time.perf_counter() - start,
        output_tokens=usage.get("output_tokens"),
        asked_again=result.get("attempt", 1) > 1,
        marker_only=content == NO_REPLY or checks.is_marker_only(content),
        wrong_language=checks.is_wrong_language(content, language, names),
        assistant_phrases=checks.assistant_phrases(content, language),
        player_lines=checks.player_lines(content, language),
        repeated=checks.is_repeated(content, earlier),
        copied=checks.is_copied(content, _instructions(services, language), language),
        thought_leaks=checks.thought_leaks(content),
        markers=checks.markers(content),
        has_action=checks.has_action(content),
    )


def _instructions(services: Services, language: Language) -> str:
    templates, _ = services.preferences.templates(prompt_language(language))
    names = ("system_prompt", "progress_instruction", "post_history_instructions")
    return "\n".join(templates[name] for name in names)


def _note(reply: Reply) -> None:
    faults = [
        name
        for name in (
            "marker_only",
            "wrong_language",
            "assistant_phrases",
            "player_lines",
            "repeated",
            "copied",
            "thought_leaks",
        )
        if getattr(reply, name)
    ]
    row = f"{reply.story} {reply.repeat}.{reply.turn} {reply.seconds:5.1f} s  {' '.join(faults)}"
    print(f"{row}\n    {reply.content!r}", file=sys.stderr, flush=True)


def _write(file: Path, options: Options, replies: Sequence[Reply], answers: Sequence[Answer] = ()) -> None:
    told = {**asdict(replace(options, stories=())), "stories": [story.name for story in options.stories]}
    told |= {"replies": [asdict(reply) for reply in replies], "answers": as_dicts(answers)}
    file.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# --- figures


def summary(replies: Sequence[Reply]) -> list[Figure]:
    """Count the faults of the replies, with the spread over the repeats."""
    if not replies:
        return []
    repeats = sorted({reply.repeat for reply in replies})

    def share(name: str, at_most: float | None, note: str = "") -> Figure:
        found = {
            repeat: [bool(getattr(r, name)) for r in replies if r.repeat == repeat] for repeat in repeats
        }
        count = sum(map(sum, found.values()))
        shares = [100 * sum(faults) / len(faults) for faults in found.values()]
        spread = f"; {min(shares):.0f}–{max(shares):.0f} % per repeat" if len(repeats) > 1 else ""
        said = f"{count} of {len(replies)}{spread}{f'; {note}' if note else ''}"
        return Figure(name.replace("_", " "), 100 * count / len(replies), "%", at_most, note=said)

    firsts = [reply.first_token_seconds for reply in replies if reply.first_token_seconds is not None]
    points = Counter(point for reply in replies for point in reply.markers)
    marked = ", ".join(f"{number}:{status} ×{count}" for (number, status), count in sorted(points.items()))
    length = fmean(len(checks.without_markers(reply.content)) for reply in replies)
    return [
        share("marker_only", 0),
        share("asked_again", None, "the first try had no words"),
        share("wrong_language", 2),
        share("assistant_phrases", 10),
        share("player_lines", 10),
        share("repeated", None, f"at least {checks.SIMILAR:g} alike"),
        share("copied", None, "words of the instructions"),
        share("thought_leaks", 0),
        share("has_action", None),
        Figure(
            "replies with a marker",
            100 * sum(bool(r.markers) for r in replies) / len(replies),
            "%",
            note=marked,
        ),
        Figure("mean length", length, "characters"),
        Figure("time to first token, p50", median(firsts or [0.0]), "s"),
        Figure("failed turns", sum(reply.status not in ("done", "empty") for reply in replies), "", 0),
    ]


def valid_answers(answers: Sequence[Answer]) -> list[Figure]:
    """Count how many answers to each question could be used."""
    names = list(dict.fromkeys(answer.question for answer in answers))
    figures: list[Figure] = []
    for name in names:
        tries = [answer.valid for answer in answers if answer.question == name]
        share = 100 * sum(tries) / len(tries)
        note = f"{sum(tries)} of {len(tries)}"
        figures.append(Figure(f"valid: {name}", share, "%", at_least=VALID_SHARE, note=note))
    return figures
