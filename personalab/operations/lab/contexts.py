"""A project's ``context_config``: which prompts are too long, and how they are shortened or refused.

A prompt over ``token_threshold`` is kept whole in the project's folder ``x_context`` (``auto_export``) and sent
shortened (``auto_compress``); with both off it is sent as it is. What cannot be shortened is refused with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from personalab.data_files import replace_file
from personalab.errors import UserError
from personalab.lab.context import estimated_tokens, exceeds, room_beside
from personalab.lab.judging import judge_call
from personalab.lab.projects import ContextConfig
from personalab.storage.lab.assets import StoredSkill
from personalab.storage.lab.projects import ProjectPlace
from personalab.texts import PROMPT_LANGUAGES, PromptLanguage

FOLDER = "x_context"


def export_prompt(place: ProjectPlace, name: str, system: str, text: str) -> str:
    """Write a whole prompt into the project; return the file's path in it."""
    folder = place.folder / FOLDER
    place.make_folder(folder)
    path = folder / f"{name}.md"
    content = f"{system}\n\n{text}\n".encode("utf-8", "backslashreplace")
    replace_file(path, content, place.shown(path), sync=place.sync)
    return path.relative_to(place.folder).as_posix()


def room_for_judging(tokens: int, language: PromptLanguage) -> int:
    """Return the tokens that a judge's instructions leave for the case and the answer."""
    bare = judge_call("", "", "", language)
    return room_beside(tokens, bare.system, bare.text)


def check_context(context: ContextConfig, skills: Sequence[StoredSkill]) -> None:
    """Refuse a threshold into which a skill or a judge's instructions do not fit, before any call is paid."""
    if not context.auto_compress:
        return
    for skill in skills:
        room_beside(context.token_threshold, skill.content, skill=skill.meta.name)
    for language in PROMPT_LANGUAGES:
        room_for_judging(context.token_threshold, language)


def check_whole_prompt(place: ProjectPlace, name: str, system: str, text: str) -> None:
    """Refuse a prompt that is too long and that shortening would spoil, such as segments to be kept exactly."""
    context = place.config.context_config
    if not exceeds(context.token_threshold, system, text):
        return
    if context.auto_export:
        export_prompt(place, name, system, text)
    if context.auto_compress:
        tokens = estimated_tokens(system) + estimated_tokens(text)
        raise UserError("lab_context_over", threshold=context.token_threshold, tokens=tokens)
