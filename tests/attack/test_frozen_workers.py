"""A worker process that stands still when the service is killed: nothing of it stays."""

import os
import signal
from pathlib import Path

import pytest

from tests.attack.service import open_service

pytestmark = pytest.mark.timeout(120)
SETTINGS = {"server.workers": 2}


async def test_a_frozen_worker_ends_with_the_service(tmp_path: Path) -> None:
    """It was there for ever, with the files of its shard open, and no service could start over them."""
    folder = tmp_path / "data"
    async with open_service(folder, settings=SETTINGS) as service:
        worker = service.pids[1]
        os.kill(worker, signal.SIGSTOP)
        await service.run.kill()
    try:
        async with open_service(folder, settings=SETTINGS) as again:

            async def has_ended() -> bool:
                return not _runs(worker)

            await again.run.until(has_ended, "the frozen process has ended")
    finally:
        if _runs(worker):
            os.kill(worker, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
