"""A server that takes transactions back, ends connections or says nothing, and what nodes share there."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sql.migrations import check
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Settlement
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.samples import ONE, TWO, batch, claim, delivery
from tests.unit.persistence.servers import command

pytestmark = pytest.mark.anyio
PACKET = 1 << 20
TOLD = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    "mysql": ("SELECT connection_id()", "KILL {}"),
}
"""What names a connection, and what ends it."""


@pytest.fixture
async def server(cluster_url: str) -> AsyncIterator[ClusterStore]:
    store = await ClusterStore.open(cluster_url)
    yield store
    await store.close()


@pytest.fixture
async def small_packets(mariadb_server: str, mariadb_cluster_url: str) -> AsyncIterator[ClusterStore]:
    """A store whose server takes no packet of more than 1 MiB."""
    command(mariadb_server, f"SET GLOBAL max_allowed_packet = {PACKET}")
    try:
        store = await ClusterStore.open(mariadb_cluster_url)
        yield store
        await store.close()
    finally:
        command(mariadb_server, "SET GLOBAL max_allowed_packet = 16777216")


async def test_the_tables_are_those_of_this_program(server: ClusterStore) -> None:
    """`punctual db check` finds no difference in any database."""
    found = check(server.database.dialect.engine, MIGRATIONS)
    assert found.up_to_date, found


async def test_a_claim_whose_connection_ends_at_its_commit_is_uncertain(
    server: ClusterStore, cluster_url: str
) -> None:
    """Nobody knows whether it counts. Over a new connection the next one is taken."""
    who, end = TOLD[server.database.dialect.engine.dialect.name]

    def work(connection: sa.Connection) -> None:
        number = connection.exec_driver_sql(who).scalar_one()
        connection.execute(sa.update(jobs).values(live=9))
        command(cluster_url, end.format(number))

    await server.shared.claim(claim("a"))
    with pytest.raises(StoreUncertain):
        await server.database.write(work)
    await server.shared.claim(claim("a", expected=1, holder=TWO))
    row = await server.shared.load("a")
    assert row is not None
    assert (row.holder, row.entry.live) == (TWO, 0)


async def test_a_claim_behind_a_lock_that_stays_is_unavailable(mariadb_cluster_url: str) -> None:
    """Nothing of it is written: the server lets it wait no longer than it is told to."""
    store = await ClusterStore.open(mariadb_cluster_url)
    await store.shared.claim(claim("a"))
    engine = store.database.dialect.engine
    with engine.connect() as holder:
        holder.exec_driver_sql("SELECT job_id FROM jobs FOR UPDATE").all()
        sa.event.listen(engine, "checkout", _wait_a_second)
        with pytest.raises(StoreUnavailable, match="Lock wait timeout"):
            await store.shared.claim(claim("a", expected=1))
    await store.shared.claim(claim("a", expected=1))
    await store.close()


def _wait_a_second(raw: Any, *_: object) -> None:
    raw.cursor().execute("SET SESSION innodb_lock_wait_timeout = 1")


async def test_a_claim_that_fits_into_no_packet_fails_alone(small_packets: ClusterStore) -> None:
    """With the setting by name; those that wait with it are taken, and the next one of its job."""
    claims = [claim("a"), claim("b", state=b"x" * PACKET), claim("c")]
    works = (small_packets.shared.claim(one) for one in claims)
    ends = await asyncio.gather(*works, return_exceptions=True)
    assert (ends[0], ends[2]) == (None, None)
    assert isinstance(ends[1], StoreUnavailable)
    assert "max_allowed_packet is 1048576: set it higher" in str(ends[1])
    await small_packets.shared.claim(claim("b", state=b"x" * (PACKET // 2)))


async def test_what_else_fits_into_no_packet_is_unavailable(small_packets: ClusterStore) -> None:
    """A record of a delivery; what is written after it is."""
    shared = small_packets.shared
    await shared.keep([delivery(1)], [], ONE)
    request = msgspec.structs.replace(delivery(1).request, body=b"x" * PACKET)
    much = msgspec.structs.replace(delivery(1), request=request)
    with pytest.raises(StoreUnavailable):
        await shared.settle([Settlement(much, done=False, batch=batch())], 1, ONE)
    await shared.settle([Settlement(delivery(1), done=True, batch=batch())], 1, ONE)
    assert await shared.deliveries("", 9) == []


@pytest.fixture
def silent() -> Iterator[int]:
    """A port where connections are taken, and nothing is ever said."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield listener.getsockname()[1]


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
async def test_a_server_that_takes_connections_and_says_nothing_is_unavailable(
    silent: int, scheme: str
) -> None:
    """After some seconds: the kernel, which answers for it, notices nothing."""
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await JobDatabase.open(url=f"{scheme}://me@127.0.0.1:{silent}/x")
