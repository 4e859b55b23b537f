"""Ports of 127.0.0.1 for programs that are told theirs, and for calls that nobody is to answer."""

import itertools
import os
import socket

# Below those of `free_ports`, and those that a system gives to outgoing connections and for port 0.
LOWEST = 10_000
OF_A_PROCESS = 1_250

_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
_NEXT = itertools.count(os.getpid())


def free_port() -> int:
    """A port that nobody uses, and that no test beside this one is given."""
    while True:
        port = LOWEST + _PROCESS * OF_A_PROCESS + next(_NEXT) % OF_A_PROCESS
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
