"""Whether a part of a cluster answers."""

import os
import socket
from pathlib import Path

import pytest

from scheduler_service.demo.child_programs import free_ports
from scheduler_service.persistence.history.database import HistoryDatabase, inspect, migrate
from scheduler_service.ports.errors import StoreUnavailable
from scripts.local_cluster import LocalCluster
from scripts.local_programs import (
    Postgres,
    describe_missing,
    find_programs,
    is_ready,
    listens,
)
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


def test_the_newest_version_is_found_where_debian_keeps_them(tmp_path: Path) -> None:
    """10 is newer than 9; what is missing is named with the package that has it."""
    assert "initdb is missing: Debian, Ubuntu: apt-get install postgresql" in describe_missing({})
    for version in ("9", "15", "10"):
        program = tmp_path / version / "bin" / "initdb"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    found = find_programs({"PATH": str(tmp_path)}, versions=tmp_path)
    assert found["initdb"] == str(tmp_path / "15" / "bin" / "initdb")
    assert not any("initdb" in line for line in describe_missing(found))


def test_what_it_keeps_outlives_it(tmp_path: Path) -> None:
    """Its files are made at the first start alone; a start answers when connections are taken."""
    initdb = find_programs(os.environ).get("initdb")
    if initdb is None:
        pytest.skip(describe_missing({})[1])
    (port, *_) = free_ports(1)
    folder = tmp_path / "cluster"
    for life in range(2):
        server = Postgres(initdb=initdb, folder=folder, port=port)
        server.start()
        try:
            assert server.wait(), server.last_lines(20)
            assert (inspect(url=server.url).current is None) == (life == 0)
            assert migrate(url=server.url).up_to_date
            held = HistoryDatabase(url=server.url)
        finally:
            server.stop()
        assert not server.is_running
        held.close()
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port} "):
        inspect(url=server.url)


def test_a_folder_that_cannot_be_made_into_a_database_is_told(tmp_path: Path) -> None:
    """The part does not come up, and the end of its log says why."""
    initdb = find_programs(os.environ).get("initdb")
    if initdb is None:
        pytest.skip(describe_missing({})[1])
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    (tmp_path / "postgres" / "data" / "other").write_text("not empty")
    (port,) = free_ports(1)
    server = Postgres(initdb=initdb, folder=tmp_path, port=port)
    server.start()
    assert not server.wait()
    assert "data" in server.last_lines(20)


def test_nodes_are_given_the_database(tmp_path: Path) -> None:
    """Both know its address, and it starts before them."""
    programs = {
        name: f"/bin/{name}" for name in ("redis-server", "initdb", "placement", "scheduler", "daprd")
    }
    cluster = LocalCluster(folder=tmp_path, programs=programs)
    database = cluster.add_database()
    for name in ("one", "two"):
        app, _ = cluster.add_node(name)
        assert app.environ["PUNCTUAL_DATABASE__URL"] == database.url
    started = [part.name for part in cluster.parts()]
    assert started.index("postgres") < started.index("one")
