"""Logs of the server as JSON lines, with ids of stories and turns but never what was said."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

_NAMES = ("instance_id", "turn", "status", "job", "subject", "path", "code")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON.

    An exception's own words may repeat what somebody said; so only its kind and where it happened are told, except in
    ``debug``. For the same reason other programs' messages end with their first line.
    """

    def __init__(self, *, debug: bool = False) -> None:
        super().__init__()
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """Format time, level, logger, event, and the ids that belong to it."""
        message = record.getMessage()
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": message if self._debug else message.partition("\n")[0],
        }
        told |= {name: getattr(record, name) for name in _NAMES if hasattr(record, name)}
        if record.exc_info and record.exc_info[1] is not None:
            told |= self._error(record.exc_info[1])
        return json.dumps(told, ensure_ascii=False, default=str)

    def _error(self, error: BaseException) -> dict[str, object]:
        frames = traceback.extract_tb(error.__traceback__)
        places = [
            f"{frame.name} ({'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno})" for frame in frames
        ]
        told: dict[str, object] = {"error": type(error).__name__, "trace": places}
        return told | ({"reason": str(error)} if self._debug else {})


def write_logs(*, debug: bool) -> None:
    """Send what is logged to stderr: ours from INFO on, of others only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(debug=debug))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("personalab").setLevel(logging.DEBUG if debug else logging.INFO)
    logging.captureWarnings(capture=True)
