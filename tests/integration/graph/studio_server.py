"""``langgraph dev`` as a test starts it, kills it and starts it again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx

PROJECT = Path(__file__).parents[3]
_OUTSIDE = ("OPENAI", "LANGSMITH", "LANGCHAIN")


class StudioServer:
    """The real LangGraph server over a data root; what it keeps of its runs is in a folder of its own."""

    def __init__(self, folder: Path, root: Path, model: str) -> None:
        folder.mkdir()
        shutil.copy(PROJECT / "langgraph.json", folder)
        self.folder = folder
        self.log = folder / "server.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTSIDE)}
        given = {"PERSONALAB_DATA": str(root), "PERSONALAB_MODEL": model, "PYTHONPATH": str(PROJECT)}
        self._environment = kept | given
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [str(Path(sys.executable).parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
        with self.log.open("a", encoding="utf-8") as out:
            self._process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", "4"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(self._process)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End the server as a power cut would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def keeps(self, text: str) -> bool:
        """Return whether the server has saved something about its runs that contains a text."""
        saved = (self.folder / ".langgraph_api").glob("*.pckl")
        return any(text.encode() in path.read_bytes() for path in saved)

    def check_log(self) -> None:
        """Check that nothing blocked the server and that it could make every schema."""
        written = self.log.read_text(encoding="utf-8", errors="replace")
        assert "BlockingError" not in written
        assert "Blocking call" not in written
        assert "Failed to get" not in written, "a schema could not be made"

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert process.poll() is None, self.log.read_text(encoding="utf-8", errors="replace")
            try:
                if httpx.get(f"{self.url}/ok").is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.2)
        raise TimeoutError("the server did not start")
