"""Faults of this machine that look like those of a peer: it has no descriptor or no memory for a socket."""

import errno
import os
import socket

EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


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
