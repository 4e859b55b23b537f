"""Programs that are started beside this one: free ports for them, and their end with that of their starter.

With the standard library alone.
"""

import contextlib
import ctypes
import errno
import os
import random
import socket
import sys
from collections.abc import Sequence

# Ports that systems give to no outgoing connection by default (Linux: from 32,768, others from 49,152): daprd
# listens some seconds after its start, and one of those could have its port by then.
LISTENING = range(20_000, 32_768)


def free_ports(count: int, among: Sequence[int] = LISTENING) -> list[int]:
    """Ports of this machine that are not in use at the moment. Raises OSError where there are too few."""
    with contextlib.ExitStack() as probes:
        found: list[int] = []
        for port in random.sample(among, len(among)):
            if len(found) == count:
                break
            with contextlib.suppress(OSError):  # in use; others are tried
                probes.enter_context(_bound(port))
                found.append(port)
    if len(found) < count:
        raise OSError(
            errno.EADDRINUSE,
            f"{len(found)} of {count} ports are free from {min(among)} to {max(among)}; end what uses them",
        )
    return found


def _bound(port: int) -> socket.socket:
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", port))
    except OSError:
        probe.close()
        raise
    return probe


PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`: the signal that the kernel sends when the parent ends; `exec` keeps it."""


def tied_command(number: int) -> Sequence[str]:
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
