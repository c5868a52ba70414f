"""Settings from the environment; no other module reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from personalab.errors import Reason, UserError, as_reason
from personalab.i18n import DEFAULT, Language, language_for
from personalab.providers.child_environment import child_environment
from personalab.providers.model_settings import ReasoningEffort

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent

DEFAULT_OPENAI_MODEL = "openai:gpt-4o-mini"
TracingMode = Literal["off", "hidden", "full"]
_TRACING = ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING", "LANGCHAIN_TRACING")
"""The variables that switch LangSmith's tracing on, in the order in which it reads them."""
_UNFILLED = "${user_config."
"""How a value begins that a host of an .mcpb bundle should have filled in, and did not."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is decided outside the data root."""

    data_root: Path
    shipped: Path
    """The samples, templates and switches that come with the program; read only."""
    model: str = "rehearsal"
    model_chosen: bool = False
    """Whether ``PERSONALAB_MODEL`` names the model; ``rehearsal`` may be a choice, too."""
    embeddings: str = "offline"
    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = None
    token: str | None = field(default=None, repr=False)
    database: str | None = field(default=None, repr=False)
    busy_seconds: float = 10.0
    """How long a second writer waits."""
    reasoning: ReasoningEffort | None = None
    """How much a reasoning model may think; ``None`` leaves that to the provider."""
    tracing: TracingMode | None = None
    """What LangSmith gets of a run: nothing, everything but texts, or everything; ``None`` where tracing is off."""
    for_programs: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """The environment of the programs we start: the allowed part of this process's own."""


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment, with the project's ``.env`` behind it."""
    if environment is None:
        _load_dotenv()
        environment = os.environ

    def given(name: str) -> str | None:
        value = environment.get(name, "").strip()
        return None if value.startswith(_UNFILLED) else value or None

    key, base_url = given("OPENAI_API_KEY"), given("OPENAI_BASE_URL")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UserError("unreadable_env", name="OPENAI_API_KEY", value="…", reason=Reason("not_ascii"))
    root, model = given("PERSONALAB_DATA"), given("PERSONALAB_MODEL")
    return Settings(
        data_root=_folder(root) if root else default_data_root(),
        shipped=shipped_folder(),
        model=model or (DEFAULT_OPENAI_MODEL if key or base_url else "rehearsal"),
        model_chosen=model is not None,
        embeddings=given("PERSONALAB_EMBEDDINGS") or "offline",
        openai_api_key=key,
        openai_base_url=base_url,
        token=given("PERSONALAB_TOKEN"),
        database=given("PERSONALAB_DATABASE"),
        busy_seconds=_seconds("PERSONALAB_BUSY_SECONDS", given("PERSONALAB_BUSY_SECONDS")),
        reasoning=_reasoning(given("PERSONALAB_REASONING")),
        tracing=_tracing(given),
        for_programs=child_environment(os.environ),
    )


def _tracing(given: Callable[[str], str | None]) -> TracingMode | None:
    """Read what may be traced; texts are hidden unless someone says otherwise."""
    mode = given("PERSONALAB_TRACING") or "hidden"
    chosen = next((known for known in get_args(TracingMode) if known == mode), None)
    if chosen is None:
        known = ", ".join(get_args(TracingMode))
        raise UserError("setting_out_of_range", field="PERSONALAB_TRACING", value=mode[:40], range=known)
    return chosen if next(filter(None, map(given, _TRACING)), None) == "true" else None


def _reasoning(effort: str | None) -> ReasoningEffort | None:
    if effort is None:
        return None
    known = get_args(ReasoningEffort)
    chosen: ReasoningEffort | None = next((one for one in known if one == effort), None)
    if chosen is None:
        shown, allowed = effort[:40], ", ".join(known)
        raise UserError("setting_out_of_range", field="PERSONALAB_REASONING", value=shown, range=allowed)
    return chosen


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise UserError(
            "unreadable_env", name="PERSONALAB_DATA", value=text[:200], reason=as_reason(error)
        ) from error


def _seconds(name: str, text: str | None) -> float:
    if text is None:
        return 10.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise UserError("setting_out_of_range", field=name, value=text[:40], range="0–3600")
    return seconds


def environment_proxies() -> dict[str, str]:
    """Read the proxies for each kind of URL (``http``, ``https``, ``all``), and the hosts without one (``no``).

    Without variables, macOS and Windows have settings of their own.
    """
    from urllib.request import getproxies  # which takes long to import

    return getproxies()


def _load_dotenv() -> None:
    path = dotenv_path()
    if path.is_file():
        from dotenv import load_dotenv

        try:
            load_dotenv(path, override=False, encoding="utf-8")
        except ValueError as error:
            raise UserError(
                "unreadable_env", name=".env", value=str(path), reason=as_reason(error)
            ) from error


def dotenv_path() -> Path:
    """Find the ``.env`` file that is read: of the checkout, or of the current folder."""
    return (_CHECKOUT if in_checkout() else Path.cwd()) / ".env"


def in_checkout() -> bool:
    """Return whether the program runs from its source tree rather than as an installed copy."""
    return (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "data" / "shipped").is_dir()


def shipped_folder() -> Path:
    """Find the samples and defaults that come with the program; nothing is ever written there."""
    return _CHECKOUT / "data" / "shipped" if in_checkout() else _PACKAGE / "shipped"


def default_data_root() -> Path:
    """Choose the data root when none is configured: in the checkout, or in the user's own folder."""
    if in_checkout():
        return _CHECKOUT / "data"
    import platformdirs

    return Path(platformdirs.user_data_dir("personalab", appauthor=False))


def spoken_language(environment: Mapping[str, str] | None = None) -> Language:
    """Guess the reader's language from the terminal, for what is said before a data root is open."""
    known = os.environ if environment is None else environment
    locale = next((known[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if known.get(name)), "")
    spoken = locale.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return DEFAULT if spoken in ("", "c", "posix") else language_for(spoken)
