"""What does the environment say? This is the only place that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from personalab.errors import UserError
from personalab.texts import Language

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent

DEFAULT_OPENAI_MODEL = "openai:gpt-4o-mini"
_UNFILLED = "${user_config."
"""How a value begins that a host of an .mcpb bundle should have filled in, and did not."""
_NOT_HANDED_ON = frozenset({"CLAUDECODE"})
"""With it, the ``claude`` command line takes itself for a part of another one and refuses to work."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is decided outside the data root."""

    data_root: Path
    shipped: Path
    """The samples, templates and switches that came with the program."""
    model: str = "rehearsal"
    embeddings: str = "offline"
    openai_api_key: str | None = field(default=None, repr=False)
    openai_base_url: str | None = None
    token: str | None = field(default=None, repr=False)
    database: str | None = field(default=None, repr=False)
    busy_seconds: float = 10.0
    """How long a second writer waits."""
    for_programs: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    """The environment of the programs we start; ``None`` where it was not read from this process's own."""


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the environment, with the project's ``.env`` behind it."""
    for_programs = None
    if environment is None:
        _load_dotenv()
        environment = os.environ
        for_programs = {name: value for name, value in environment.items() if name not in _NOT_HANDED_ON}

    def given(name: str) -> str | None:
        value = environment.get(name, "").strip()
        return None if value.startswith(_UNFILLED) else value or None

    key, base_url = given("OPENAI_API_KEY"), given("OPENAI_BASE_URL")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UserError("unreadable_env", name="OPENAI_API_KEY", value="…", reason="it is not plain ASCII")
    root = given("PERSONALAB_DATA")
    return Settings(
        data_root=_folder(root) if root else default_data_root(),
        shipped=shipped_folder(),
        model=given("PERSONALAB_MODEL") or (DEFAULT_OPENAI_MODEL if key or base_url else "rehearsal"),
        embeddings=given("PERSONALAB_EMBEDDINGS") or "offline",
        openai_api_key=key,
        openai_base_url=base_url,
        token=given("PERSONALAB_TOKEN"),
        database=given("PERSONALAB_DATABASE"),
        busy_seconds=_seconds("PERSONALAB_BUSY_SECONDS", given("PERSONALAB_BUSY_SECONDS")),
        for_programs=for_programs,
    )


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise UserError(
            "unreadable_env", name="PERSONALAB_DATA", value=text[:200], reason=str(error)
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


def _load_dotenv() -> None:
    path = (_CHECKOUT if in_checkout() else Path.cwd()) / ".env"
    if path.is_file():
        from dotenv import load_dotenv

        try:
            load_dotenv(path, override=False, encoding="utf-8")
        except ValueError as error:
            raise UserError("unreadable_env", name=".env", value=str(path), reason=str(error)) from error


def in_checkout() -> bool:
    """Tell whether the program runs from its source tree rather than as an installed copy."""
    return (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "data").is_dir()


def shipped_folder() -> Path:
    """Find what came with the program."""
    return _CHECKOUT / "data" if in_checkout() else _PACKAGE / "shipped"


def default_data_root() -> Path:
    """Choose where data lives when nobody says: in the checkout, or in the user's own folder."""
    if in_checkout():
        return _CHECKOUT / "data"
    import platformdirs

    return Path(platformdirs.user_data_dir("personalab", appauthor=False))


def spoken_language(environment: Mapping[str, str] | None = None) -> Language:
    """Guess the reader's language from the terminal, for what is said before a data root is open."""
    known = os.environ if environment is None else environment
    locale = next((known[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if known.get(name)), "")
    spoken = locale.replace("-", "_").partition("_")[0].partition(".")[0].lower()
    return "zh" if spoken in ("", "c", "posix", "zh") else "en"
