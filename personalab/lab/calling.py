"""Calls to an executor: their prices, the shortening of long prompts, their answers, and stored errors."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, TypedDict, cast

from personalab.errors import BadRecord, PersonaLabError, Reason, UserError
from personalab.texts import FALLBACK, REASONS, TEXTS, Language, PromptLanguage, fill, say
from personalab.texts.actions import rendering_for

_HERE = ("scripted:", "local:")


def is_free(model: str) -> bool:
    """Return whether a model runs on this machine, and is therefore free."""
    return model == "rehearsal" or model.startswith(_HERE)


def tells_price(model: str) -> bool:
    """Return whether a model's answers report their cost: the command line's do, a chat model's do not."""
    return is_free(model) or ":" not in model


def is_limited(models: Sequence[str], max_calls: int | None, max_usd: float | None) -> bool:
    """Return whether a budget limits the spending; one in money does if every model reports its cost."""
    return max_calls is not None or (max_usd is not None and all(map(tells_price, models)))


MAX_ERROR = 300
"""How long the sentence of a failure may be."""

_CODES = {text: code for code, text in REASONS.templates(FALLBACK).items() if "{" not in text} | {
    "it is no account of a call": "no_call_record",
    "it is no name of a file": "no_file_name",
    "it may not be read": "unreadable",
    "it is not there, or may not be run": "not_runnable",
    "it does not tell its version": "no_version",
    "it is not of the form provider:model": "not_provider_model",
    "it is beyond all times": "time_out_of_range",
    "it is cut off": "cut_off",
    "it is there twice": "twice_in_archive",
    "no line of it can be read": "no_readable_line",
}
"""The reasons without parameters by their English words: older files have no code beside them."""


def plain_params(params: Mapping[str, object]) -> dict[str, str | int | float]:
    """Return an error's parameters as a file can keep them, texts no longer than a sentence.

    A reason of ours is kept as its English words, and beside them as its code (``reason_code``; ``reason_error`` if it
    is an error) and its parameters (``reason.limit``).
    """
    found: dict[str, str | int | float] = {}
    for name, value in params.items():
        with rendering_for("terminal"):  # a file is the same from every entrance
            found[name] = value if isinstance(value, int | float) else str(value)[:MAX_ERROR]
        if isinstance(value, Reason | PersonaLabError):
            found[f"{name}_code" if isinstance(value, Reason) else f"{name}_error"] = value.code
            found |= plain_params({f"{name}.{key}": part for key, part in value.params.items()})
    return found


def restored_params(params: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters that ``plain_params`` kept, reasons as what they were."""
    found: dict[str, object] = {name: value for name, value in params.items() if "." not in name}
    for name, value in [*found.items()]:
        prefix = f"{name}."
        parts = {key.removeprefix(prefix): part for key, part in params.items() if key.startswith(prefix)}
        if (code := str(params.get(f"{name}_code"))) in REASONS:
            found[name] = Reason(code, **restored_params(parts))
            found.pop(f"{name}_code", None)
        elif (code := str(params.get(f"{name}_error"))) in TEXTS:
            found[name] = PersonaLabError(code, **restored_params(parts))
            found.pop(f"{name}_error", None)
        elif name == "reason" and isinstance(value, str) and value in _CODES:
            found[name] = Reason(_CODES[value])
    return found


def warning_text(warning: Mapping[str, Any], language: Language) -> str:
    """Return a warning's text by its code; its other fields are parameters."""
    code = str(warning.get("code", ""))
    params = {name: value for name, value in warning.items() if name != "code"}
    return say(code, language, **restored_params(params)) if code in TEXTS else code


_WIDE = re.compile("[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_LEFT_OUT: dict[PromptLanguage, str] = {
    "zh": "\n\n……（此处省略约 {tokens} 个 token；以上是开头，以下是结尾）……\n\n",
    "en": "\n\n… (about {tokens} tokens are left out here: the beginning stands above, the end below) …\n\n",
}


_NOTE_TOKENS = 60
"""No note on what was left out has more."""
LEAST_ROOM = 240
"""A prompt that is to be shortened needs so many tokens beside its fixed part."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for each Chinese, Japanese or Korean character, else one for four."""
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // 4)


def shorten_text(text: str, tokens: int, language: PromptLanguage) -> str:
    """Keep the beginning and the end of a text that is too long, two parts to one, with a note between them."""
    total = estimated_tokens(text)
    if total <= tokens:
        return text
    head = _reach(text, tokens * 2 // 3)
    tail = _reach(text[::-1], tokens - tokens * 2 // 3)
    note = fill(_LEFT_OUT[language], tokens=total - tokens)
    return text[:head] + note + (text[-tail:] if tail else "")


def shorten_parts(texts: Sequence[str], tokens: int, language: PromptLanguage) -> list[str]:
    """Shorten the longest of several texts until all together fit; what the short ones leave free is theirs."""
    needed = [estimated_tokens(text) for text in texts]
    left, found = tokens, list(texts)
    order = sorted(range(len(texts)), key=needed.__getitem__)
    for number, at in enumerate(order):
        share = left // (len(order) - number)
        if needed[at] > share:
            found[at] = shorten_text(texts[at], max(1, share - _NOTE_TOKENS), language)
        left -= min(needed[at], share)
    return found


def exceeds(tokens: int, *texts: str) -> bool:
    """Return whether texts together have more tokens; short ones are not counted, for a character is one at most."""
    return sum(map(len, texts)) > tokens and sum(map(estimated_tokens, texts)) > tokens


def room_beside(threshold: int, *fixed: str, skill: str | None = None) -> int:
    """Return the tokens a threshold leaves beside what cannot be shortened: a skill's text, or a judge's instructions.

    A threshold that leaves too few is refused.
    """
    needed = sum(map(estimated_tokens, fixed)) + LEAST_ROOM
    if threshold >= needed:
        return threshold - needed + LEAST_ROOM
    if skill is None:
        raise UserError("lab_context_no_judge", threshold=threshold, tokens=needed)
    raise UserError("lab_context_no_skill", threshold=threshold, tokens=needed, skill=skill[:80])


def _reach(text: str, tokens: int) -> int:
    """Return the number of leading characters that have so many tokens."""
    low, high = 0, min(len(text), tokens * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimated_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return low


_PASSAGE = 24
"""Characters in a row that no answer shares with a note by chance."""
_SHORTEST = 8
"""Characters of a line that is looked for as a whole."""


def repeats_note(data: object, note: str, known: Sequence[str]) -> bool:
    """Return whether a text anywhere in ``data`` has a passage of our note.

    Passages that also occur in ``known`` do not count: the question and the model's own earlier answer may be quoted.
    """
    lines = [_flat(line) for line in note.splitlines() if line.strip()]
    sources = [_flat(text) for text in known]
    passages = {part for line in lines for part in _passages(line)}
    short = [line for line in lines if _SHORTEST <= len(line) < _PASSAGE]
    for text in map(_flat, _texts(data)):
        shared = [part for part in _passages(text) if part in passages]
        shared += [line for line in short if line in text]
        if any(not any(part in source for source in sources) for part in shared):
            return True
    return False


def _passages(line: str) -> Iterator[str]:
    return (line[at : at + _PASSAGE] for at in range(len(line) - _PASSAGE + 1))


def _flat(text: str) -> str:
    """Join a text's words by single spaces, without the signs of a heading."""
    return " ".join(text.split()).strip("= ")


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif is_dataclass(data) and not isinstance(data, type):
        for field in fields(data):
            yield from _texts(getattr(data, field.name))
    elif isinstance(data, Mapping):
        for value in cast("Mapping[object, object]", data).values():
            yield from _texts(value)
    elif isinstance(data, list | tuple):
        for value in cast("Sequence[object]", data):
            yield from _texts(value)


CallStatus = Literal["ok", "failed"]
MAX_TIMEOUT = 86_400.0

_CALL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_MAX_MODEL = 200
VALUE_FLAGS = (
    *("--effort", "--max-turns", "--max-budget-usd", "--max-thinking-tokens", "--thinking", "--betas"),
)
"""Flags of the ``claude`` command line that a person may set for a run, as ``--name=value``."""
SWITCHES = ("--verbose", "--disable-slash-commands", "--no-chrome")
"""Flags without a value that a person may set. None of them opens a file, runs a program, grants a tool or changes
what is asked: the skill is measured, not the machine."""
_FLAG_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,-]{0,99}", re.ASCII)


class CallUsage(TypedDict):
    """Tokens of one call; ``input_tokens`` holds the cached ones, too."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Call:
    """One question to an executor; making one that cannot be asked raises a ``UserError``."""

    call_id: str
    """A name in its spool folder that no other question has: what was answered under it is given again."""
    system: str
    """The skill's content."""
    system_file: str | None
    """A file that holds exactly ``system``; the executor writes one where there is none."""
    text: str
    schema: Mapping[str, object] | None
    """The JSON schema of a structured answer, if one is wanted."""
    model: str
    """As the executor names it; blank for its own default."""
    timeout_seconds: float
    extra_flags: tuple[str, ...] = ()
    repeat: int = 1

    def __post_init__(self) -> None:
        if _CALL_ID.fullmatch(self.call_id) is None:
            raise UserError("lab_bad_call", field="call_id", reason=Reason("no_file_name"))
        if not self.text.strip():
            raise UserError("blank_input")
        if not self.model.isprintable() or len(self.model) > _MAX_MODEL:
            reason = Reason("control_or_long")
            raise UserError("lab_bad_call", field="model", reason=reason)
        if not 0 < self.timeout_seconds <= MAX_TIMEOUT:
            reason = Reason("not_within", limit=f"{MAX_TIMEOUT:g}")
            raise UserError("lab_bad_call", field="timeout_seconds", reason=reason)
        check_flags(self.extra_flags)


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What came of a call; a failure is an answer, too."""

    status: CallStatus
    text: str = ""
    structured: object | None = None
    error: str | None = None
    """What went wrong, in one English line."""
    error_code: str | None = None
    error_params: Mapping[str, str | int | float] | None = None
    """Parameters of the code's text, so that a failure can be shown in any language."""
    retryable: bool = False
    retry_after: float | None = None
    """The seconds the service asks to wait."""
    duration_ms: int = 0
    executor: str = ""
    cli_version: str = ""
    model_version: str = ""
    usage: CallUsage | None = None
    cost_usd: float | None = None

    def fields(self) -> dict[str, object]:
        """Return it as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def read(cls, data: object) -> CallAnswer:
        """Read what ``fields`` gave; ``BadRecord`` names the first thing wrong with it."""
        row = cast("Mapping[str, object]", data if isinstance(data, Mapping) else {})
        status = row.get("status")
        if status not in ("ok", "failed"):
            raise BadRecord("bad_record", field="status", reason=Reason("not_one_of", known="ok, failed"))
        return cls(
            status="ok" if status == "ok" else "failed",
            text=_text(row, "text"),
            structured=row.get("structured"),
            error=_text(row, "error") or None,
            error_code=_text(row, "error_code") or None,
            error_params=_params(row.get("error_params")),
            retryable=row.get("retryable") is True,
            retry_after=_amount(row, "retry_after"),
            duration_ms=int(_amount(row, "duration_ms") or 0),
            executor=_text(row, "executor"),
            cli_version=_text(row, "cli_version"),
            model_version=_text(row, "model_version"),
            usage=_usage(row.get("usage")),
            cost_usd=_amount(row, "cost_usd"),
        )


def check_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Return a person's extra flags unchanged, or refuse one that is not on the list of allowed ones."""
    known = tuple(flags)
    for flag in known:
        name, equals, value = flag.partition("=")
        is_plain = _FLAG_VALUE.fullmatch(value) is not None
        if not (name in VALUE_FLAGS and is_plain if equals else name in SWITCHES):
            listed = ", ".join([*(f"{one}=…" for one in VALUE_FLAGS), *SWITCHES])
            shown = "".join(one if one.isprintable() else "�" for one in flag[:80])
            raise UserError("lab_flag_refused", flag=shown, allowed=listed)
    return known


def amount_of(value: object) -> float | None:
    """Read a number that tells how much: finite and not negative, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRecord("bad_record", field=field, reason=Reason("not_text"))
    return value


def _params(value: object) -> dict[str, str | int | float] | None:
    if not isinstance(value, Mapping):
        return None
    return plain_params({str(name): one for name, one in cast("Mapping[object, object]", value).items()})


def _amount(row: Mapping[str, object], field: str) -> float | None:
    value = row.get(field)
    amount = amount_of(value)
    if value is not None and amount is None:
        raise BadRecord("bad_record", field=field, reason=Reason("negative"))
    return amount


def _usage(value: object) -> CallUsage | None:
    if not isinstance(value, Mapping):
        return None
    row = cast("Mapping[str, object]", value)
    return CallUsage(
        input_tokens=int(_amount(row, "input_tokens") or 0),
        output_tokens=int(_amount(row, "output_tokens") or 0),
        cached_tokens=int(_amount(row, "cached_tokens") or 0),
    )
