"""Whether anything has come on a connection that nobody uses."""

import socket

from scheduler_service.transport.connection import make_prober


def test_a_probe_hears_bytes_and_the_end_of_its_own_socket() -> None:
    """It takes nothing away: whoever reads later finds all of it."""
    make_probe = make_prober()
    ours, theirs = socket.socketpair()
    other, silent = socket.socketpair()
    with ours, theirs, other, silent:
        ours.setblocking(False)
        is_silent, is_other_silent = make_probe(ours), make_probe(other)
        assert is_silent()
        theirs.sendall(b"unasked")
        assert not is_silent()
        assert ours.recv(100) == b"unasked"
        assert is_silent()
        theirs.close()
        assert not is_silent()
        assert is_other_silent()
