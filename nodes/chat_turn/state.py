"""The state of a chat turn: its input, what its steps pass on, and its result.

Everything is plain JSON: the state can be looked at in LangGraph Studio. The lock, the open file and the
records stay in the process, in ``personalab.story.open_turn.OpenTurn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from langgraph.channels import EphemeralValue
from typing_extensions import TypedDict  # pydantic reads schemas from it on Python 3.11

from personalab.errors import PersonaLabError
from personalab.i18n import DEFAULT, Language
from personalab.story.events import Event, Notice, error_event
from personalab.story.open_turn import Scene
from personalab.story.summary import PostTurnTask

Action = Literal["say", "retry", "begin", "begin_again", "end"]


class TurnInput(TypedDict, total=False):
    """A call of the graph.

    ``say`` (the default): the model answers ``user_input``. ``retry``: the model answers the last turn again.
    ``begin``: the prompt for ``user_input`` is handed out and the caller writes the reply. ``begin_again``: the
    same for the last turn, if it has no whole reply yet. ``end``: the caller brings ``caller_reply`` for ``turn``, and
    ``caller_truncated`` if it was cut off at a length limit. With ``caller_is_model`` a model wrote it, and it
    ends before lines for the player; what a person brings stays whole. With ``wordless_before``, the
    prompt of ``begin_again`` says that the reply written for it had no words.
    ``request_id`` names a call of ``say`` or ``begin``: repeating it gives the same turn instead of another one.
    ``hold_seconds`` keeps the story for the caller of ``begin``: for so long a new turn of others waits for its reply.
    What is said in one call is gone in the next, also where a server keeps a thread's state; only the instance and
    the turn stay.
    """

    instance_id: str
    user_input: Annotated[str, EphemeralValue]
    action: Annotated[Action, EphemeralValue]
    turn: int
    caller_reply: Annotated[str, EphemeralValue]
    caller_truncated: Annotated[bool, EphemeralValue]
    caller_is_model: Annotated[bool, EphemeralValue]
    wordless_before: Annotated[bool, EphemeralValue]
    request_id: Annotated[str, EphemeralValue]
    hold_seconds: Annotated[float, EphemeralValue]


def _latest(_: Any, new: Any) -> Any:
    return new


class TurnOutput(TypedDict, total=False):
    """The result of a call."""

    instance_id: str
    session_id: str
    turn: int | None
    attempt: int
    """Which try at the turn's reply this is, from 1."""
    status: Annotated[str, _latest]
    """done, interrupted, empty, error or awaiting_reply"""
    reply: str
    reasoning: str
    """What the model thought."""
    truncated: bool
    """Whether the model stopped at its length limit."""
    plot_state: dict[str, Any]
    warnings: list[dict[str, Any]]
    tokens: dict[str, Any] | None
    usage: dict[str, Any] | None
    prompt: dict[str, Any] | None
    error: Annotated[dict[str, Any] | None, _latest]
    care_due: list[PostTurnTask]
    """What a person wants taken care of after such a turn; ``graph.chat_turn.stream_turn`` does so."""
    care: list[dict[str, Any]]
    """What was taken care of."""


class TurnState(TurnInput, TurnOutput, total=False):  # pyright: ignore[reportIncompatibleVariableOverride] (turn: none yet)
    """What the steps hand on."""

    lease: str
    mode: Action
    brought: str
    brought_truncated: bool
    brought_by_model: bool
    is_wordless_before: bool
    hold: float
    closed: bool
    """Whether the reply's line is closed in the file."""
    recalled: list[dict[str, Any]]
    player: str
    """What is known about the player, as the prompt will say it."""
    lore: dict[str, Any] | None
    """Lorebook texts ``before`` and ``after`` the character in the prompt, and the matched ``hits``."""
    director: dict[str, Any] | None


@dataclass(kw_only=True)
class TurnContext:
    """What a caller may choose for one run."""

    model: str | None = None
    """``provider:model`` instead of the configured one."""


@dataclass(kw_only=True)
class StreamContext(TurnContext):
    """The same for a run that this process streams; apart, for a server shows the choices of a run as JSON."""

    emit: Callable[[Any], None]
    """Hands an event to whoever streams the run."""
    stop_asked: Callable[[], bool]
    """Tells whether someone asked the outer run, if there is one, to stop."""


@dataclass(frozen=True, slots=True)
class TurnEmitter:
    """Emits events of one turn, each warning once a category, in the reader's language."""

    emit: Callable[[Event], None]
    scene: Scene

    @property
    def language(self) -> Language:
        """The reader's language."""
        loaded = self.scene.loaded
        return loaded.preferences.config.language if loaded else DEFAULT

    def warn(self, notices: Iterable[Notice]) -> None:
        """Emit warnings, and keep them for the turn's result."""
        for notice in notices:
            if all(notice.category != known["category"] for known in self.scene.warnings):
                event = notice.event(self.scene.number, self.language)
                self.scene.warnings.append(event)
                self.emit(event)

    def error(self, error: PersonaLabError) -> dict[str, Any]:
        """Emit an error and return it for the turn's result."""
        event = error_event(error, self.scene.number, self.language)
        self.emit(event)
        return dict(event)
