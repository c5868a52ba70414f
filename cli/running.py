"""Execution of a command: services, signals, errors and exit codes.

Exit codes: 0 done, 2 bad usage or input, 1 any other failure, 130 interrupted by Ctrl-C, 143 and 129 ended by
SIGTERM and SIGHUP.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from cli.output import can_show, is_terminal, note, one_line, prepare_streams
from personalab.i18n import ABOUT, FALLBACK, Language

if TYPE_CHECKING:
    import asyncio

    from personalab.services import Services

T = TypeVar("T")
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_opened: list[Services] = []
_shows_logs: list[bool] = []
"""Holds an entry when tracebacks and logs are shown."""
_NO_OUTPUT = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT, errno.EFBIG)
"""How writing to stdout fails; a failing data file is a ``StorageError`` by the time it gets here."""


class Refusal(Exception):  # noqa: N818 (what the entrance says, not what failed)
    """The entrance cannot do what was requested; the message is one sentence."""

    def __init__(self, code: str, /, **params: object) -> None:
        super().__init__(code)
        self.code = code
        self.params = params


def one_of(options: Mapping[str, bool]) -> None:
    """Refuse options that contradict each other."""
    given = [name for name, chosen in options.items() if chosen]
    if len(given) > 1:
        raise Refusal("not_together", names=", ".join(given))


class Ended(BaseException):
    """A signal asked the program to end; what was running has been cleaned up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def services() -> Services:
    """Open the services of this process's data root, once."""
    if not _opened:
        from personalab.services import open_services, tracing_notice

        _opened.append(open_services())
        if notice := tracing_notice(_opened[0], language_of(_opened[0])):
            note(notice)
    return _opened[0]


def language() -> Language:
    """Find the reader's language: the data root's, or the terminal's while there is no root."""
    if _opened:
        return language_of(_opened[0])
    from personalab.settings import spoken_language

    return _shown(_saved_language() or spoken_language())


def language_of(services: Services) -> Language:
    """Return the language to use: the saved one, but English where that cannot be shown."""
    return _shown(services.preferences.language())


def _shown(language: Language) -> Language:
    return language if can_show(ABOUT.say("name", language)) else FALLBACK


def _saved_language() -> Language | None:
    from personalab.errors import PersonaLabError
    from personalab.settings import read_settings
    from personalab.storage.preferences import PreferenceFiles

    with suppress(PersonaLabError, OSError):
        settings = read_settings()
        if (settings.data_root / "config.json").exists():
            return PreferenceFiles(settings.data_root, settings.shipped).language()
    return None


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work to its end; Ctrl-C, SIGTERM and SIGHUP cancel it and wait for its clean-up."""
    import asyncio

    async def watched() -> T:
        with _ending_by_signal(asyncio.get_running_loop(), asyncio.current_task()):
            return await work

    return asyncio.run(watched())


@contextmanager
def _ending_by_signal(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> Generator[None]:
    """Cancel a task when the program is asked to end, and say by which signal; an ignored one stays ignored."""
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        if task is not None:
            task.cancel()

    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    for number in numbers:
        loop.add_signal_handler(number, end, number)
    try:
        yield
    except BaseException as error:
        if came:
            raise Ended(came[0]) from error
        raise
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
    if came:
        raise Ended(came[0])


def run() -> int:
    """Run the command line and return its exit code."""
    prepare_streams()
    return guarded(_run_command, debug=lambda: bool(_shows_logs))


def _run_command() -> int | None:
    import typer

    from cli.program import app

    try:
        result: Any = app(prog_name="personalab", standalone_mode=False)
    except typer.TyperException as error:
        from cli.usage import word_refusal

        if said := word_refusal(error, language()):
            note(said)
        return BAD_INPUT
    except typer.Abort:
        return FAILED
    return result if isinstance(result, int) else None


def guarded(run: Callable[[], int | None], *, debug: Callable[[], bool]) -> int:
    """Run the program; whatever happens ends in an exit code and at most one sentence."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] (it is, after >&-)
        return _no_output(OSError(errno.EBADF, os.strerror(errno.EBADF)))
    try:
        code = run() or DONE
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Ended as end:
        _hush()
        return end.exit_code
    except BrokenPipeError:
        _hush()
        return FAILED
    except Exception as error:  # noqa: BLE001 (the outermost place: a reader gets a sentence, not a traceback)
        return _failed(error, debug())
    if code == INTERRUPTED and is_terminal(sys.stderr):
        from cli.texts import tell

        note("\n" + tell("interrupted", _any_language()))
    return code


def _no_output(error: OSError) -> int:
    """Report that nothing can be printed."""
    from cli.texts import tell
    from personalab.errors import as_reason

    note(tell("no_output", _any_language(), reason=as_reason(error)))
    _hush()
    return FAILED


def _failed(error: Exception, debug: bool) -> int:
    """Print in one sentence what went wrong, and return the exit code of whoever has to act."""
    import logging

    from cli.texts import tell
    from personalab.errors import PersonaLabError, UserError

    if debug:
        logging.getLogger("personalab.cli").debug("failed", exc_info=error)
    match error:
        case PersonaLabError():
            note(one_line(error.message(_any_language())))
        case Refusal():
            note(one_line(tell(error.code, _any_language(), **error.params)))
        case OSError(errno=number, filename=None) if number in _NO_OUTPUT:
            return _no_output(error)
        case ImportError(name=str(name)):
            note(tell("not_ready", _any_language(), name=name))
        case _:
            note(tell("unexpected", _any_language(), kind=type(error).__name__))
    return BAD_INPUT if isinstance(error, UserError | Refusal) else FAILED


def _any_language() -> Language:
    try:
        return language()
    except Exception:  # noqa: BLE001 (a sentence about one failure must not fail by another)
        return FALLBACK


def _hush() -> None:
    """Discard the interpreter's last flush, because the reader of our output has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def keep_quiet() -> None:
    """Keep what libraries log and warn of off the reader's screen."""
    import logging
    import warnings

    warnings.simplefilter("ignore")
    logging.getLogger().addHandler(logging.NullHandler())


def speak_up() -> None:
    """Show what our own code logs, tracebacks included."""
    import logging

    _shows_logs.append(True)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("personalab").setLevel(logging.DEBUG)
