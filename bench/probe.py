"""Asks a server's ``/healthz`` every 20 ms, from a process of its own, and prints how long each answer took."""

from __future__ import annotations

import http.client
import sys
import threading
import time
from urllib.parse import urlsplit

EVERY_SECONDS = 0.02


def main() -> None:
    """Print a line per answer (start and duration in seconds) until stdin is closed."""
    address = urlsplit(sys.argv[1])
    closed = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=300)
    while not closed.wait(EVERY_SECONDS):
        start = time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        print(start, time.monotonic() - start, flush=True)


if __name__ == "__main__":
    main()
