"""`punctual demo`: a service is killed before one's eyes, and nothing of it stays behind."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.wire.processes.process import COMMAND, Process, bare_environment

DEMO = [*COMMAND, "demo", "--port", "0"]
PATIENCE = 30


def demo(folder: Path) -> Process:
    """The demo, with its temporary files in `folder`."""
    environ = bare_environment(PUNCTUAL_SERVER__DRAIN_SECONDS="0", TMPDIR=str(folder))
    return Process(DEMO, cwd=folder, environ=environ)


def ends(process: int) -> bool:
    """Whether a process that is not our child is gone soon."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_crash_is_shown_and_survived(tmp_path: Path) -> None:
    """Killed with an open call; the request comes again byte for byte, and each step is done once (16)."""
    with demo(tmp_path) as process:
        first = int(process.wait_for_line(r"^crash: kill -9 (\d+): ").group(1))
        second = int(process.wait_for_line(r"^crash: the same command .* process (\d+)$").group(1))
        process.wait_for_line(r"^crash: demo-parcel #1 succeeded in its attempt 1")
        process.wait_for_line(r"^crash: pack: came 2 times, with the same Idempotency-Key and equal byte")
        process.wait_for_line(r"^crash: nothing was repeated: 3 steps, 3 keys")
        assert first != second
        assert ends(second)
        assert process.stop() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_demo_that_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    """Neither a process nor a file; it ends with 0."""
    with demo(tmp_path) as process:
        child = int(process.wait_for_line(r"^crash: a second service, process (\d+)").group(1))
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert ends(child)
        assert not re.search("Traceback", "".join(process.err))
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    """The second service ends with it."""
    with demo(tmp_path) as process:
        child = int(process.wait_for_line(r"^crash: a second service, process (\d+)").group(1))
        os.kill(process.pid, signal.SIGKILL)
        assert ends(child)
