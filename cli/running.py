"""How does a command run, and what does its ending mean to the shell?

0 done, 2 bad usage or input, 1 anything else, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from cli.output import is_terminal, note

if TYPE_CHECKING:
    from personalab.services import Services
    from personalab.texts import Language

T = TypeVar("T")
DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_opened: list[Services] = []


class Refusal(Exception):  # noqa: N818 (what the entrance says, not what failed)
    """The entrance itself cannot do what was asked; it says so in one sentence."""

    def __init__(self, code: str, /, **params: object) -> None:
        super().__init__(code)
        self.code = code
        self.params = params


def services() -> Services:
    """Open the services of this process's data root, once."""
    if not _opened:
        from personalab.services import open_services

        _opened.append(open_services())
    return _opened[0]


def language() -> Language:
    """Find the reader's language: the data root's, or the terminal's while no root is open."""
    if _opened:
        return _opened[0].preferences.language()
    from personalab.settings import spoken_language

    return spoken_language()


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work to its end; Ctrl-C cancels it and waits for its clean-up."""
    import asyncio

    return asyncio.run(work)


def guarded(run: Callable[[], int | None], *, debug: Callable[[], bool]) -> int:
    """Run the program; whatever happens ends in an exit code and at most one sentence."""
    try:
        code = run() or DONE
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        _hush()
        return FAILED
    except Exception as error:  # noqa: BLE001 (the outermost place: a reader gets a sentence, not a traceback)
        return _failed(error, debug())
    if code == INTERRUPTED and is_terminal(sys.stderr):
        from cli.texts import tell

        note("\n" + tell("interrupted", _any_language()))
    return code


def _failed(error: Exception, debug: bool) -> int:
    """Say in one sentence what went wrong, and tell by the exit code who has to act."""
    import logging

    from cli.texts import tell
    from personalab.errors import PersonaLabError, UserError

    if debug:
        logging.getLogger("personalab.cli").debug("failed", exc_info=error)
    match error:
        case PersonaLabError():
            note(error.message(_any_language()))
        case Refusal():
            note(tell(error.code, _any_language(), **error.params))
        case ImportError(name=str(name)):
            note(tell("not_ready", _any_language(), name=name))
        case _:
            note(tell("unexpected", _any_language(), kind=type(error).__name__))
    return BAD_INPUT if isinstance(error, UserError | Refusal) else FAILED


def _any_language() -> Language:
    try:
        return language()
    except Exception:  # noqa: BLE001 (a sentence about one failure must not fail by another)
        return "en"


def _hush() -> None:
    """Let the interpreter's last flush go nowhere: whoever read our output has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
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

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("personalab").setLevel(logging.DEBUG)
