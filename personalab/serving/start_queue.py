"""Only so many turns prepare their prompts at the same time.

If 200 turns did so side by side, all of them would be ready late, and together they would take twice the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_AT_ONCE = 12
"""With fewer, the replies that have begun take the time the others need to begin."""
_HOLD_SECONDS = 0.3
"""Turns that wait for another writer of their story let others begin after this time."""


class StartQueue:
    """Lets a few turns at a time prepare what they send to the model."""

    def __init__(self, at_once: int = _AT_ONCE, hold_seconds: float = _HOLD_SECONDS) -> None:
        self.at_once = at_once
        self._hold_seconds = hold_seconds
        self._free = asyncio.Semaphore(at_once)

    async def enter(self) -> Callable[[], None]:
        """Wait for a place; call what is returned, once or more, when the preparation is over."""
        await self._free.acquire()
        is_held = True

        def leave() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                timer.cancel()
                self._free.release()

        timer = asyncio.get_running_loop().call_later(self._hold_seconds, leave)
        return leave
