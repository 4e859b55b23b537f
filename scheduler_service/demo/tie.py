"""Becomes another program, which ends when the process that started it ends, even by SIGKILL."""

import ctypes
import os
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`: the signal that the kernel sends when the parent ends; `exec` keeps it."""


def command_of(number: int) -> Sequence[str]:
    """What stands before a command so that the end of this process sends it signal `number`.

    The program has the process number of the command. On other systems than Linux nothing is sent. For the
    kernel the parent is a thread: start it from one that lives as long as the process.
    """
    return [sys.executable, "-m", __spec__.name, str(os.getpid()), str(number)]


def main(arguments: Sequence[str]) -> None:
    """Becomes the command, unless the parent has already ended. Raises OSError without such a program."""
    parent, number, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number))
    # It may have ended before the line above: then no signal comes.
    if os.getppid() == int(parent):
        os.execvp(command[0], command)  # noqa: S606 - the caller's own command, without a shell


if __name__ == "__main__":
    main(sys.argv[1:])
