"""Whether a part of a cluster answers."""

import socket

import pytest

from scheduler_service.demo.programs import free_ports, is_ready, listens
from tests.http_program import Asked, HttpProgram, Said
from tests.rows import each_row


@each_row(("status", "ready"), [(200, True), (503, False)])
def test_a_node_is_up_when_it_takes_work(status: int, ready: bool) -> None:
    """Not as soon as it listens."""
    asked: list[Asked] = []

    def answer(one: Asked) -> Said:
        asked.append(one)
        return Said(status)

    with HttpProgram(answer) as program:
        assert listens(program.port)()
        assert is_ready(program.port)() is ready
    assert [one.path for one in asked] == ["/health/ready"]


def test_where_nobody_listens_nobody_is_up() -> None:
    """It is asked again later."""
    (port,) = free_ports(1)
    assert not listens(port)()
    assert not is_ready(port)()


def test_ports_are_none_that_outgoing_connections_get() -> None:
    """A program that listens some seconds after its start would find one of those taken."""
    ports = free_ports(8)
    assert len(set(ports)) == 8
    assert all(20_000 <= port < 32_768 for port in ports)


def test_a_port_in_use_is_not_free() -> None:
    """Where too few are left, the error says how many of which."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        used = int(listening.getsockname()[1])
        free = free_ports(1)
        assert free_ports(1, among=[used, *free]) == free
        with pytest.raises(OSError, match=rf"0 of 1 ports are free from {used} to {used}"):
            free_ports(1, among=[used])
