"""Ports of this machine that nobody uses; with the standard library alone."""

import contextlib
import errno
import random
import socket
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
