"""Executor that runs calls on the ``claude`` program without ever paying for a call twice, and reads its output.

The program writes its answer directly into the call's own file in the spool folder, and continues if our
process is killed. When the same call is run again, the executor uses the answer, waits for the program that
still works on it, or, if there is neither, starts the program.

A call has succeeded only if its result says ``success`` and no error: a call that used up its turns ends with
exit code 0, and an error of the service is a "success" that has ``is_error``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from personalab.dialogue import object_in, well_formed
from personalab.errors import Because, ProviderError, Reason, as_reason
from personalab.lab.calling import MAX_ERROR, Call, CallAnswer, CallUsage, amount_of, plain_params
from personalab.providers.call_spool import CallFiles, forget_call, spooling
from personalab.providers.child_environment import child_environment
from personalab.providers.claude_process import (
    Child,
    End,
    LaunchSpec,
    NotStarted,
    RunRecord,
    finish_despite_cancel,
    is_output_locked,
    lock_output,
    read_run_record,
    read_stderr,
    start,
    terminate_earlier,
    wait_for_earlier,
)
from personalab.providers.failures import clean_reason

MAX_OUTPUT = 32 * 1024 * 1024
_STDERR_SHOWN = 2000
_SMALL = 64 * 1024
"""Size up to which fresh output is read directly: that takes less time than starting a thread."""
_PROBE_SECONDS = 10.0
_NO_VERSION = "unknown"
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_LEAST_SECRET = 8
_NOT_THERE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)
_FIXED = (
    *("-p", "--output-format", "json", "--tools", ""),
    *("--no-session-persistence", "--setting-sources=", "--strict-mcp-config"),
)


def find_program(cli_path: str, path: str | None = None) -> str | None:
    """Find the program by its path, on ``PATH``, or beside the Python that runs us, where ours are installed."""
    wanted = os.path.expanduser(cli_path)
    return shutil.which(wanted, path=path) or shutil.which(wanted, path=os.path.dirname(sys.executable))


def is_running(spool: Path, call_id: str) -> bool:
    """Return whether a program that an earlier process started still works on a call."""
    files = CallFiles(spool, call_id)
    with spooling(files):
        return is_output_locked(files)


def answer_left(spool: Path, call_id: str) -> CallAnswer | None:
    """Read the answer that is left of a call, without asking for it; ``None`` if there is none."""
    files = CallFiles(spool, call_id)
    with spooling(files):
        if (kept := files.kept()) is not None:
            return kept
        result = read_result(files.read("out", MAX_OUTPUT) or b"")
        call = Call(call_id, "", None, call_id, None, "", 1.0)
        version = read_run_record(files, call).cli_version
        return (
            None
            if result is None
            else answer_of(result, call, ProgramExit(None, "", 0, "", version, ClaudeCli.name))
        )


class ClaudeCli:
    """Runs calls through ``claude -p``, one process each.

    ``environment`` is what the program may see; only the names of ``child_environment`` are handed on.
    """

    name = "claude-cli"

    def __init__(
        self,
        cli_path: str = "claude",
        *,
        environment: Mapping[str, str],
        max_output: int = MAX_OUTPUT,
    ) -> None:
        self._cli_path = cli_path
        self._max_output = max_output
        self._environment = child_environment(environment)
        self._secrets = tuple(
            value
            for key, value in environment.items()
            if len(value) >= _LEAST_SECRET and any(word in key.upper() for word in _SECRET_NAMES)
        )
        self._probing = threading.Lock()
        self._found: tuple[tuple[str, ...], str] | None = None

    async def version(self) -> str:
        """Ask the program for its version, once; a ``ProviderError`` where it cannot be started."""
        found = self._found or await asyncio.to_thread(self._program)
        return found[1]

    def forget(self, spool: Path, call_id: str) -> None:
        """Remove a call's files, once its answer is stored elsewhere or before it is asked again."""
        forget_call(spool, call_id)

    async def run(self, call: Call, spool: Path) -> CallAnswer:
        """Return the answer that is there, or get it; an answer, also a failed one, stays until ``forget``.

        Cancelling ends the program and everything it started.
        """
        files = CallFiles(spool, call.call_id)
        loop = asyncio.get_running_loop()
        while True:
            begun, cancelled = await finish_despite_cancel(
                loop.run_in_executor(None, self._begin, call, files)
            )
            if isinstance(begun, CallAnswer):
                if cancelled:
                    raise asyncio.CancelledError
                return begun
            if isinstance(begun, Child):
                return await self._await_child(begun, call, files, cancelled=cancelled)
            answer = await self._await_earlier(begun, call, files, cancelled=cancelled)
            if answer is not None:
                return answer

    # --- beginning, in a thread

    def _begin(self, call: Call, files: CallFiles) -> CallAnswer | Child | RunRecord:
        """Find the answer, or the program that works on it, or start one."""
        with spooling(files):
            if (kept := files.kept()) is not None:
                return kept
            out = lock_output(files)
            if out is None:
                return read_run_record(files, call)
            try:
                if os.fstat(out).st_size:
                    left = self._earlier_answer(call, files, read_run_record(files, call))
                    if left is not None:
                        return left
                return self._start(call, files, out)
            except ProviderError as error:
                files.remove()
                return failed_answer(error, call, self._ending())
            finally:
                # The program has it as its own output by now.
                os.close(out)

    def _start(self, call: Call, files: CallFiles, out: int) -> Child:
        command, version = self._found or self._program()
        asked = well_formed(call.text).encode("utf-8")
        arguments = [*command, *_FIXED, *self._arguments(call, files)]
        try:
            return start(
                files, out, LaunchSpec(arguments, self._environment, asked, call.timeout_seconds, version)
            )
        except NotStarted as failed:
            raise self._not_started(failed.error) from failed

    def _arguments(self, call: Call, files: CallFiles) -> Sequence[str]:
        """Word what is asked; values come after ``=``, so that none of them is taken for a flag."""
        system = call.system_file
        if system is None:
            files.write("system", well_formed(call.system).encode("utf-8"))
            system = files.path("system")
        arguments = [f"--system-prompt-file={os.path.abspath(system)}"]
        if call.model:
            arguments.append(f"--model={call.model}")
        if call.schema is not None:
            arguments.append(f"--json-schema={json.dumps(call.schema, separators=(',', ':'))}")
        return [*arguments, *call.extra_flags]

    def _program(self) -> tuple[tuple[str, ...], str]:
        """Find the program and ask its version, once."""
        with self._probing:
            if self._found is None:
                found = find_program(self._cli_path, self._environment.get("PATH"))
                if found is None:
                    raise self._missing(Reason("not_runnable"))
                command = (os.path.abspath(found),)
                self._found = command, self._probe(command)
            return self._found

    def _probe(self, command: tuple[str, ...]) -> str:
        try:
            told = subprocess.run(
                [*command, "--version"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _NO_VERSION
        except OSError as error:
            raise self._not_started(error) from error
        said = told.stdout[:_STDERR_SHOWN].decode("utf-8", "replace").split()
        if told.returncode or not said:
            why = told.stderr[-_STDERR_SHOWN:].decode("utf-8", "replace")
            raise self._missing(clean_reason(why, self._secrets) or Reason("no_version"))
        return clean_reason(said[0])

    def _missing(self, reason: Because) -> ProviderError:
        # Cut, so that the remedy after it is not.
        reason = reason[:80] if isinstance(reason, str) else reason
        return ProviderError("provider.cli_missing", cli_path=self._cli_path[:80], reason=reason)

    def _not_started(self, error: OSError) -> ProviderError:
        reason = as_reason(error)
        if error.errno in _NOT_THERE:
            return self._missing(reason)
        if error.errno == errno.E2BIG:
            return ProviderError("provider.cli_usage", reason=reason)
        return ProviderError("provider.cli_crashed", retryable=True, exit="no start", reason=reason)

    # --- waiting

    async def _await_child(
        self, child: Child, call: Call, files: CallFiles, *, cancelled: bool
    ) -> CallAnswer:
        """Wait for a program of our own and read what it left."""
        try:
            if cancelled:
                raise asyncio.CancelledError
            end = await child.wait(call.timeout_seconds, lambda: self._is_too_much(files))
        except asyncio.CancelledError:
            await finish_despite_cancel(child.end())
            self._remove_incomplete(files)
            raise
        if end != "ended":
            _, cancelled = await finish_despite_cancel(child.end())
        if files.size("out") <= _SMALL:
            answer, again = self._collect(child, end, call, files), False
        else:
            loop = asyncio.get_running_loop()
            answer, again = await finish_despite_cancel(
                loop.run_in_executor(None, self._collect, child, end, call, files)
            )
        if cancelled or again:
            raise asyncio.CancelledError
        return answer

    async def _await_earlier(
        self, run: RunRecord, call: Call, files: CallFiles, *, cancelled: bool
    ) -> CallAnswer | None:
        """Wait for a program of an earlier process; ``None`` if it has ended without a result."""
        try:
            if cancelled:
                raise asyncio.CancelledError
            end = await wait_for_earlier(files, run, self._max_output)
        except asyncio.CancelledError:
            await finish_despite_cancel(terminate_earlier(files))
            self._remove_incomplete(files)
            raise
        _, cancelled = await finish_despite_cancel(terminate_earlier(files))
        with spooling(files):
            answer = self._earlier_answer(call, files, run)
            if answer is None and end != "ended":
                answer = failed_answer(self._aborted(end, call), call, self._ending(version=run.cli_version))
                files.keep(answer)
        if cancelled:
            raise asyncio.CancelledError
        return answer

    def _is_too_much(self, files: CallFiles) -> bool:
        return max(files.size("out"), files.size("err")) > self._max_output

    def _remove_incomplete(self, files: CallFiles) -> None:
        """Remove what a cancelled call left, unless it is a whole result."""
        with contextlib.suppress(OSError):
            if read_result(files.read("out", self._max_output) or b"") is None:
                files.remove()

    # --- reading

    def _collect(self, child: Child, end: End, call: Call, files: CallFiles) -> CallAnswer:
        """Read what a program of our own left; where that is no result, keep the failure as the call's answer."""
        took = time.monotonic() - child.begun
        child.reap()
        version = self._found[1] if self._found else ""
        with spooling(files):
            raw = files.read("out", self._max_output)
            if (result := read_result(raw or b"")) is not None:
                return answer_of(result, call, self._ending(version=version, took=took))
            said = read_stderr(files, _STDERR_SHOWN)
            ending = self._ending(child.returncode, said, version=version, took=took)
            if end == "ended" and raw is not None:
                failure = no_result(raw, ending)
            else:
                failure = self._aborted("late" if end == "late" else "too_much", call)
            answer = failed_answer(failure, call, ending)
            files.keep(answer)
        return answer

    def _earlier_answer(self, call: Call, files: CallFiles, run: RunRecord) -> CallAnswer | None:
        """Read the whole result that an earlier process's program left: it has been paid."""
        result = read_result(files.read("out", self._max_output) or b"")
        return None if result is None else answer_of(result, call, self._ending(version=run.cli_version))

    def _aborted(self, end: End, call: Call) -> ProviderError:
        if end == "late":
            return ProviderError("provider.call_timeout", retryable=True, seconds=f"{call.timeout_seconds:g}")
        return ProviderError("provider.cli_too_much", limit=self._max_output)

    def _ending(
        self, returncode: int | None = None, stderr: str = "", *, version: str = "", took: float = 0.0
    ) -> ProgramExit:
        return ProgramExit(
            returncode=returncode,
            stderr=stderr,
            duration_ms=round(took * 1000),
            cli_path=self._cli_path,
            cli_version=version,
            executor=self.name,
            secrets=self._secrets,
        )


Row = Mapping[str, object]

_TRIES = 64
"""Maximum lines tried as the beginning of a result, from the last one up."""
_START = re.compile(r"^[\[{]", re.MULTILINE)
_STATUS = re.compile(
    r"\b(?:API Error|Request failed|status(?: code)?|HTTP)\D{0,24}?\b([45]\d\d)\b", re.IGNORECASE
)
_BUSY = re.compile(r"rate.?limit|overloaded|too many requests|usage limit|limit reached", re.IGNORECASE)
_PASSING = re.compile(
    r"timed? ?out|connection (?:error|reset|refused|closed)|ECONNRE\w+|ETIMEDOUT|ENOTFOUND|EAI_AGAIN"
    r"|socket hang up|fetch failed|network error|internal server error",
    re.IGNORECASE,
)
# How the program itself begins such a line; the same words in the middle of an answer mean nothing.
_LOGIN = re.compile(
    r"^\s*(?:error:\s*|API Error:?\s*)?(?:invalid api key|not logged in|please run /login|unauthori[sz]ed"
    r"|oauth token|failed to authenticate|\{?[^\n]{0,60}\bauthentication_error)",
    re.IGNORECASE | re.MULTILINE,
)
_USAGE_ERROR = re.compile(
    r"^\s*error: .*?(?:unknown option|unknown command|argument missing|option '[^']*' .*invalid"
    r"|too many arguments|requires --|input must be provided|prompt file not found|is not valid JSON)",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_STARTED = (126, 127)
_RESET_AT = re.compile(r"limit reached\|(\d{9,11})\b")


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a run of the program ended."""

    returncode: int | None
    """``None`` where it ended unseen."""
    stderr: str
    duration_ms: int
    cli_path: str
    cli_version: str
    executor: str
    secrets: tuple[str, ...] = ()


def read_result(raw: bytes) -> Row | None:
    """Find the result in what the program wrote: whole, among other lines, or the last of a list of messages."""
    text = raw.decode("utf-8", "replace")
    starts = [match.start() for match in _START.finditer(text)]
    for at in (*starts[:1], *reversed(starts[1:][-_TRIES:])):
        if (found := _result_at(text, at)) is not None:
            return found
    return None


def answer_of(result: Row, call: Call, ending: ProgramExit) -> CallAnswer:
    """Turn a result into an answer, be it a success or not."""
    usage, version, cost = _accounts(result, call)
    text = _text(result.get("result"))
    duration = ending.duration_ms or int(amount_of(result.get("duration_ms")) or 0)
    structured = well_formed_json(result.get("structured_output"))
    failure = _failure_in(result, text, ending.secrets)
    if failure is None and call.schema is not None and structured is None:
        # If there is none either, the caller reports that and asks again.
        with contextlib.suppress(ValueError):
            structured = well_formed_json(object_in(text))
    return CallAnswer(
        status="failed" if failure else "ok",
        text=text,
        structured=structured,
        error=error_sentence(failure) if failure else None,
        error_code=failure.code if failure else None,
        error_params=plain_params(failure.params) if failure else None,
        retryable=failure.retryable if failure else False,
        retry_after=_retry_after(text) if failure and failure.retryable else None,
        duration_ms=duration,
        executor=ending.executor,
        cli_version=ending.cli_version,
        model_version=version,
        usage=usage,
        cost_usd=cost,
    )


def failed_answer(error: ProviderError, call: Call, ending: ProgramExit) -> CallAnswer:
    """Turn a failure without a result into an answer."""
    return CallAnswer(
        status="failed",
        error=error_sentence(error),
        error_code=error.code,
        error_params=plain_params(error.params),
        retryable=error.retryable,
        duration_ms=ending.duration_ms,
        executor=ending.executor,
        cli_version=ending.cli_version,
        model_version=call.model,
    )


def error_sentence(error: ProviderError) -> str:
    """Return a failure as one English line."""
    said = " ".join(str(error).split()) or error.code
    return said if len(said) <= MAX_ERROR else said[: MAX_ERROR - 1] + "…"


def no_result(raw: bytes, ending: ProgramExit) -> ProviderError:
    """Return why a run that ended has left no result."""
    said = ending.stderr or raw[-2000:].decode("utf-8", "replace")
    reason = clean_reason(said, ending.secrets)
    code = ending.returncode or 0
    if code in _NOT_STARTED:
        return ProviderError("provider.cli_missing", cli_path=ending.cli_path, reason=reason)
    if code > 0 and _USAGE_ERROR.search(said):
        return ProviderError("provider.cli_usage", reason=reason)
    if code > 0 and (known := _by_words(_status_in(said), said, reason)) is not None:
        return known
    if code:
        return ProviderError("provider.cli_crashed", retryable=True, exit=_exit_name(code), reason=reason)
    return ProviderError("provider.cli_garbage", retryable=True, reason=reason)


def _result_at(text: str, start: int) -> Row | None:
    try:
        value: object = _DECODER.raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None
    rows = cast("list[object]", value) if isinstance(value, list) else [value]
    for row in reversed(rows):
        if isinstance(row, Mapping) and cast("Row", row).get("type") == "result":
            return cast("Row", row)
    return None


# JSON has no NaN or Infinity; where one occurs, the intended value is unknown.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def _failure_in(result: Row, text: str, secrets: Sequence[str]) -> ProviderError | None:
    subtype = _text(result.get("subtype"))
    told = amount_of(result.get("api_error_status"))
    said = text or "; ".join(_text(row) for row in _rows(result.get("errors")))
    reason = clean_reason(said, secrets)
    if subtype == "success" and result.get("is_error") in (None, False):
        return None
    known = _by_words(int(told) if told else _status_in(said), said, reason)
    if subtype == "success":
        return known or ProviderError("provider.failed", reason=reason or Reason("no_reason"))
    # An error in mid-work has been paid for and mostly comes again with the same question: only what is known to
    # pass is worth another try. Limits on turns and money were set by a person.
    if subtype == "error_during_execution" and known is not None:
        return known
    why = f"{subtype}: {reason}" if reason else subtype
    return ProviderError("provider.cli_stopped", reason=clean_reason(why) or Reason("no_reason"))


def _by_words(status: int | None, said: str, reason: str) -> ProviderError | None:
    """Explain a status or a sentence of the service; ``None`` if it is unknown."""
    if status in (401, 403) or (status is None and _LOGIN.search(said)):
        return ProviderError("provider.cli_login", reason=reason)
    if status in (429, 529) or (status is None and _BUSY.search(said)):
        return ProviderError("provider.cli_busy", retryable=True, status=status or 429, reason=reason)
    if status is not None and (status == 408 or status >= 500):
        return ProviderError("provider.server", retryable=True, status=status)
    if status is not None and status >= 400:
        return ProviderError("provider.refused", status=status, reason=reason)
    if _PASSING.search(said):
        return ProviderError("provider.mid_stream", retryable=True, reason=reason)
    return None


def _status_in(said: str) -> int | None:
    found = _STATUS.search(said)
    return int(found[1]) if found else None


def _retry_after(text: str) -> float | None:
    found = _RESET_AT.search(text)
    return max(0.0, int(found[1]) - time.time()) if found else None


def _exit_name(code: int) -> str:
    number = -code if code < 0 else code - 128
    if code > 0 and not 0 < number < 65:
        return f"exit code {code}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"


def _accounts(result: Row, call: Call) -> tuple[CallUsage | None, str, float | None]:
    """Sum up the tokens of all models, and tell which of them was the dearest and what all cost."""
    models = _row(result.get("modelUsage"))
    cost = amount_of(result.get("total_cost_usd"))
    if not models:
        told = _row(result.get("usage"))
        if not told:
            return None, call.model, cost
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        return _usage([told], names), call.model, cost
    rows = {name: _row(value) for name, value in models.items()}
    names = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
    dearest = max(rows, key=lambda name: amount_of(rows[name].get("costUSD")) or 0.0)
    if cost is None:
        cost = sum(amount_of(row.get("costUSD")) or 0.0 for row in rows.values())
    return _usage(list(rows.values()), names), well_formed(dearest), cost


def _usage(rows: list[Row], names: tuple[str, str, str, str]) -> CallUsage:
    fresh, created, cached, output = (
        sum(int(amount_of(row.get(name)) or 0) for row in rows) for name in names
    )
    return CallUsage(input_tokens=fresh + created + cached, output_tokens=output, cached_tokens=cached)


def _row(value: object) -> Row:
    return cast("Row", value) if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    return well_formed(value) if isinstance(value, str) else ""


def well_formed_json(value: object) -> object:
    """Make every text in a value well-formed, so that it can be written to a file; too deep a value is none."""
    try:
        return _well_formed_json(value)
    except RecursionError:
        return None


def _well_formed_json(value: object) -> object:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [_well_formed_json(row) for row in cast("list[object]", value)]
    if isinstance(value, Mapping):
        return {well_formed(name): _well_formed_json(row) for name, row in cast("Row", value).items()}
    return value
