"""A process that acquires the right to learn from a story, and ends without releasing it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from personalab.storage.story_lock import FileLearningLock, FileStoryLock


async def _die(root: Path, instance_id: str) -> None:
    instances = root / "instances"
    async with FileLearningLock(instances, FileStoryLock(instances)).hold(instance_id, wait=1):
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(_die(Path(sys.argv[1]), sys.argv[2]))
