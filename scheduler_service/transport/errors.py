"""The errors of the transport: each is the fault of one exchange, and ends as a `Fault` at the sender.

PunctualError
├── PolicyError          an entry of `egress.allow` or `egress.deny` that cannot be read
└── TransportError       no answer came
    ├── RefusedTarget    the address guard refused it (kind `egress`)
    ├── ConnectFailed    refused, reset, no such name, broken protocol (kind `connect`)
    │   ├── Dropped      closed before a byte of the answer came
    │   └── Unreached    no connection was made, so that nothing of the request was sent
    │       └── Exhausted    this machine had no descriptor for it: it is tried again
    ├── TimedOut         the call's time ran out (kind `timeout`)
    ├── NotSigned        a secret is missing, or cannot sign (kind `template`)
    └── NoInstance       the service has no address (kind `no_instance`)
        └── NotBack      it has none yet: its instances are waited for
"""

import errno
import os
import socket
from typing import ClassVar

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.wire import FaultKind

EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class PolicyError(PunctualError):
    """An entry of the egress settings that cannot be read."""


class TransportError(PunctualError):
    """No answer came. The message names the address and the remedy, never a path, query or header value."""

    kind: ClassVar[FaultKind] = FaultKind.CONNECT


class RefusedTarget(TransportError):
    """The address guard refused the target (SPEC section 9)."""

    kind = FaultKind.EGRESS


class ConnectFailed(TransportError):
    """Refused, reset, no such name, broken protocol, or a request that cannot be written."""


class Unreached(ConnectFailed):
    """No connection was made: refused, unreachable, no such name. Nothing of the request was sent."""


class MachineExhausted(Unreached):
    """This machine had no descriptor or no memory for a connection; the pool tries again."""


class Dropped(ConnectFailed):
    """The peer closed the connection before a byte of its answer came.

    `unheard`: so many of the bytes that were sent last had not come to its machine when it ended its stream.
    """

    def __init__(self, message: str, unheard: int) -> None:
        super().__init__(message)
        self.unheard = unheard


class TimedOut(TransportError):
    """The HTTP timeout of the call ran out."""

    kind = FaultKind.TIMEOUT


class NotSigned(TransportError):
    """A secret that the request names is missing, or cannot sign: nothing was sent."""

    kind = FaultKind.TEMPLATE


class NoInstance(TransportError):
    """The service has no address."""

    kind = FaultKind.NO_INSTANCE


class NotBack(NoInstance):
    """The service has no address yet: its instances are waited for."""


def is_exhausted(error: OSError) -> bool:
    """Whether the machine is to blame and not the peer, so that it may go better soon.

    A lookup that could open no socket fails like one without an answer: then it is tried whether there is a
    descriptor now.
    """
    if isinstance(error, socket.gaierror):
        return not has_descriptor()
    return error.errno in EXHAUSTED


def has_descriptor() -> bool:
    """Whether a file could be opened now."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in EXHAUSTED
    return True
