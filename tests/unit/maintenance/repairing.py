"""A process that repairs copies of a damaged folder, and is killed at each point of the repair in turn."""

import gc
import os
import shutil
import signal
import sys
from pathlib import Path

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.folder_repair import repair_folder
from scheduler_service.persistence.history.database import migrate
from scheduler_service.persistence.sql.sqlite import IN_MEMORY
from scheduler_service.settings import Settings
from tests.unit.persistence.crashing import Killer


def repair_until_killed(folder: Path, passage: int) -> bool:
    """Whether a process of its own that repairs `folder` came to its end before the passage."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            repair_folder(folder, history_address(Settings(), folder), now=0, faults=Killer(passage))
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code == 0


def sweep(damaged: Path, into: Path) -> None:
    """Leaves a folder per passage, named after its number; the last one has come to its end."""
    passage = 1
    while True:
        copy = into / str(passage)
        shutil.copytree(damaged, copy)
        if repair_until_killed(copy, passage):
            return
        passage += 1


if __name__ == "__main__":
    migrate(url=IN_MEMORY)  # loads what is imported late, once and not in each child
    gc.freeze()  # a child that looked for garbage in it would copy all of it
    sweep(Path(sys.argv[1]), Path(sys.argv[2]))
