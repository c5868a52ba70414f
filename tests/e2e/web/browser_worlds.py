"""Stories and model servers for the browser tests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from personalab.services import Services, open_services
from personalab.settings import read_settings
from personalab.story.transcript import AssistantLine, Line, UserLine, dump_line
from tests.support.mcp_server.processes import with_provider, world
from tests.support.web.serving import SECONDS, Served, serving, wait_until
from tests.support.web.slow_model import SlowModel

Json = dict[str, Any]
TIME = "2026-03-14T19:20:00Z"

# What strangers write into names, stories and cards, hoping that it runs or that it turns the page around.
SCRIPT = "<script>window.ran = 1</script>"
IMAGE = "<img src=x onerror='window.ran = 1'>"
LINK = "[press me](javascript:window.ran=1)"
TURNED = "\u202eevil\u2066"
HOSTILE = f"{SCRIPT}{IMAGE}{LINK}{TURNED}"


def said(turn: int, user: str, reply: str, *, interrupted: bool = False) -> list[Line]:
    """Word one turn as lines of a session."""
    return [UserLine(user, turn, TIME), AssistantLine(reply, turn, TIME, interrupted)]


def long_history(turns: int, words: str = "the wind and the lamp") -> Iterable[Line]:
    """Word a long session; every turn says its number."""
    for turn in range(1, turns + 1):
        yield from said(turn, f"question {turn}: {words}?", f"answer {turn}: {words}.")


@dataclass
class House:
    """A data root with a server on it; ``model`` is who answers, if it is under the test's control."""

    folder: Path
    environment: dict[str, str]
    model: SlowModel | None = None
    server: Served | None = None
    options: tuple[str, ...] = ()
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def url(self) -> str:
        """Where the page is."""
        assert self.server is not None
        return self.server.url

    @property
    def data(self) -> Path:
        """The data root."""
        return Path(self.environment["PERSONALAB_DATA"])

    @property
    def services(self) -> Services:
        """What another program on the same data root works with."""
        return open_services(read_settings(self.environment))

    def start(self, port: int = 0) -> None:
        """Start the server; after a kill on the same port, as the page knows it."""
        log = self.folder / "server.log"
        self.server = self._open.enter_context(serving(self.environment, log, *self.options, port=port))

    def restart(self) -> None:
        """Kill the server as a power cut does, and start it again at the same address."""
        assert self.server is not None
        port = httpx.URL(self.server.url).port
        assert port
        self.server.kill()
        self.start(port)

    def story(
        self,
        instance_id: str,
        lines: Iterable[Line] = (),
        *,
        character: str = "char_maren",
        background: str | None = "bg_lighthouse",
    ) -> str:
        """Make a story whose session has some lines already."""
        stories = self.services.stories
        where = stories.background(background) if background else None
        stories.create_instance(stories.character(character), where, instance_id, TIME)
        with self.session(instance_id).open("ab") as file:
            file.writelines(dump_line(line) for line in lines)
        return instance_id

    def session(self, instance_id: str, session_id: str = "sess_001") -> Path:
        """Name a session's file."""
        return self.data / "instances" / instance_id / "sessions" / f"{session_id}.jsonl"

    def lines(self, instance_id: str, session_id: str = "sess_001") -> list[Json]:
        """Read a session as any program would, its metadata left out."""
        text = self.session(instance_id, session_id).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()[1:]]

    def wait_for_reply(self, instance_id: str) -> Json:
        """Wait until the newest reply is whole in its file."""
        path = self.session(instance_id)

        def whole() -> bool:
            text = path.read_text(encoding="utf-8")
            return text.endswith("\n") and '"role":"assistant"' in text.splitlines()[-1]

        wait_until(whole, "the reply was never whole")
        return self.lines(instance_id)[-1]

    def config(self, **values: Any) -> None:
        """Set values of ``config.json``: ``limits__max_total_tokens=10000``."""
        path = self.data / "config.json"
        known: Json = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for name, value in values.items():
            group, _, key = name.partition("__")
            known.setdefault(group, {})[key] = value
        path.write_text(json.dumps(known), encoding="utf-8")

    def speak(self, language: str) -> None:
        """Let the page speak a language from its next start on."""
        self.ask("PUT", "/api/settings", json={"values": {"preferences.language": language}})

    def ask(self, method: str, path: str, **options: Any) -> Json:
        """Ask the server as a program does."""
        answer = httpx.request(method, f"{self.url}{path}", timeout=SECONDS, **options)
        assert answer.is_success, answer.text
        return answer.json()


@contextlib.contextmanager
def house(
    folder: Path,
    *options: str,
    model: SlowModel | None = None,
    language: str | None = "en",
    **more: str,
) -> Generator[House]:
    """Make a data root of its own with a server; the rehearsal model answers, or the one that is given.

    The page is in the ``language`` that was chosen there; without one it asks the browser at its first start.
    """
    environment = world(folder, PERSONALAB_MODEL="rehearsal", **more)
    if model is not None:
        environment = with_provider(environment, model)
    made = House(folder, environment, model, options=options)
    # Looking things up would load a model of its own; the stories here need nothing from the past.
    modules = made.data / "modules"
    _ = made.services
    modules.mkdir(parents=True, exist_ok=True)
    (modules / "recall.json").write_text('{"trigger": "off"}', encoding="utf-8")
    if language:
        made.config(preferences__language=language)
    with made._open:  # pyright: ignore[reportPrivateUsage]
        made.start()
        yield made
