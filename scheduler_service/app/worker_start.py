"""The first lines of a worker process, before it imports what it needs.

`python -m scheduler_service.app.worker_start DESCRIPTOR` is started by the service alone
(`hosts.processes.worker_processes`).
"""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1
"""Of `prctl(2)`: which signal a process gets when the one that started it has ended."""


def end_with_parent() -> None:
    """Has the system kill this process when the service ends, also where it stands still: it holds a shard.

    What counts for it is the thread that has started this process: that of the loop, which lives as long.
    Elsewhere than on Linux it does nothing: the process ends when it goes on, for its connection is cut.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def ignore_terminal() -> None:
    """Signals of a terminal reach all processes: the service alone acts on them, and stops the others."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """Works until the connection to the service is cut."""
    end_with_parent()
    ignore_terminal()
    from scheduler_service.app.worker_main import main as work  # its imports take a third of a second

    work()


if __name__ == "__main__":
    main()
