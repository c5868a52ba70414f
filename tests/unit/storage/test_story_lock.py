"""What the lock file of a story keeps."""

from pathlib import Path

import pytest

from personalab.storage.story_lock import FileStoryLock


@pytest.mark.anyio
async def test_fencing_number_survives_a_torn_lock_file(tmp_path: Path) -> None:
    (tmp_path / "inst_001").mkdir()
    (tmp_path / "inst_001" / ".lock").write_bytes(b'{"fence": 13} "lease": "8aa370366096fa5f", "pid": 1}')
    held = await FileStoryLock(tmp_path).acquire("inst_001", "say", wait=1)
    assert held.fence == 14
    await held.release()
