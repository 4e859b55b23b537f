"""What waits together at the shared database is one transaction, and what is joint one call."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.job_store.claim_rows import SettledDeliveries
from scheduler_service.persistence.job_store.database import (
    CALM_SECONDS,
    GROUP_BYTES,
    GroupedWork,
    JobDatabase,
    divide,
    weigh,
)
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.sql.database import OpenDatabase
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sql.migrations import check
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Settlement
from tests.fault_points import EachPoint
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.samples import ONE, TWO, batch, claim, delivery
from tests.unit.persistence.servers import command

pytestmark = pytest.mark.anyio
VALUES = 100


async def test_a_defect_of_one_write_is_told_to_its_caller() -> None:
    """The others of its group are written, and the thread takes further ones."""

    def break_down(connection: sa.Connection) -> None:
        raise ZeroDivisionError

    database = await JobDatabase.open(url="sqlite://")
    try:
        works = [database.write(lambda connection: "written") for _ in range(2)]
        ends = await asyncio.gather(works[0], database.write(break_down), works[1], return_exceptions=True)
        assert [type(one) for one in ends] == [str, ZeroDivisionError, str]
        assert await database.write(lambda connection: 7) == 7
    finally:
        await database.close()


async def test_values_that_wait_together_are_one_call() -> None:
    """Each value has its own verdict, in its place, whatever else is in the group."""
    calls: list[Sequence[int]] = []

    def refuse_odd(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(values)
        return [StoreConflict(f"{one} is odd") if one % 2 else one for one in values]

    database = await JobDatabase.open(url="sqlite://")
    try:
        work = [database.write_together(refuse_odd, value) for value in range(VALUES)]
        alone = database.write(lambda connection: connection.scalar(sa.select(sa.literal("alone"))))
        ends = await asyncio.gather(*work[:50], alone, *work[50:], return_exceptions=True)
    finally:
        await database.close()
    assert ends.pop(50) == "alone"
    assert ends[::2] == list(range(0, VALUES, 2))
    assert {type(one) for one in ends[1::2]} == {StoreConflict}
    assert calls == [list(range(VALUES))]


async def test_what_may_wait_is_written_with_what_comes_next() -> None:
    """A value of a later round of the loop joins it; alone it is written when its time is up."""
    calls: list[Sequence[int]] = []

    def note(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(list(values))
        return values

    database = await JobDatabase.open(url="sqlite://")
    try:
        early = database.write_together(note, 1, may_wait=True)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await database.write_together(note, 2) == 2
        assert await early == 1
        assert await database.write_together(note, 3, may_wait=True) == 3
    finally:
        await database.close()
    assert calls == [[1, 2], [3]]


async def test_reads_that_wait_together_are_one_call() -> None:
    """Each caller gets what was read for its value; where the database cannot read, none does."""
    calls: list[Sequence[int]] = []

    def double(connection: sa.Connection, values: list[int]) -> list[Any]:
        calls.append(values)
        return [2 * one for one in values]

    def fail(connection: sa.Connection, values: list[int]) -> list[Any]:
        connection.exec_driver_sql("SELECT * FROM nowhere")
        return values

    database = await JobDatabase.open(url="sqlite://")
    try:
        work = [database.read_together(double, value) for value in range(VALUES)]
        ends = await asyncio.gather(*work)
        failed = await asyncio.gather(
            *(database.read_together(fail, n) for n in (1, 2)), return_exceptions=True
        )
    finally:
        await database.close()
    assert ends == list(range(0, 2 * VALUES, 2))
    assert calls == [list(range(VALUES))]
    assert [type(one) for one in failed] == [StoreUnavailable] * 2


async def test_a_closed_database_is_unavailable() -> None:
    """Callers are still answered while a node closes: 503, and no fault of the service."""
    database = await JobDatabase.open(url="sqlite://")
    await database.close()
    for ask in (database.read, database.write_apart, database.write):
        with pytest.raises(StoreUnavailable):
            await ask(lambda connection: 1)
    with pytest.raises(StoreUnavailable):
        await database.read_together(lambda connection, values: values, 1)


THIRD = b"x" * (GROUP_BYTES // 3)
LARGE = replace(delivery(1), request=OutboundRequest("POST", "http://t/x", (), 2 * THIRD))


def _write_none(connection: sa.Connection, values: Sequence[object]) -> list[None]:
    return [None] * len(values)


def test_what_is_small_is_one_group() -> None:
    """The list as it was given."""
    works: list[Any] = [GroupedWork(_write_none, claim(f"job-{number}")) for number in range(1_000)]
    ((group, size),) = divide(works, sum(map(weigh, works)))
    assert group is works
    assert size == sum(map(weigh, works))


def test_what_is_large_is_several_groups_in_order() -> None:
    """States, definitions and bodies of notifications count; a write is never divided."""
    values: list[object] = [
        claim("a", state=THIRD),
        claim("b", definition=THIRD),
        "of no weight",
        claim("c", deliveries=(LARGE,)),
        SettledDeliveries((Settlement(LARGE, done=False),)),
        claim("d", state=9 * THIRD),
        claim("e"),
        claim("f", state=THIRD),
    ]
    works: list[Any] = [GroupedWork(_write_none, value) for value in values]
    groups = list(divide(works, sum(map(weigh, works))))
    assert [len(group) for group, _ in groups] == [3, 1, 1, 1, 2]
    assert [size for _, size in groups] == [sum(map(weigh, group)) for group, _ in groups]
    assert [work.value for group, _ in groups for work in group] == values


class Disk(EachPoint):
    """A disk that is full while it is told to be, before or after a commit; and a clock."""

    def __init__(self, when: str) -> None:
        self.is_full = False
        self.now = 0.0
        self.told: list[str | None] = []
        self._when = when

    def at(self, place: str) -> None:
        if self.is_full and place.startswith(self._when):
            raise sqlite3.OperationalError("database or disk is full")

    def open(self) -> JobDatabase:
        """A database on it."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        database = OpenDatabase(
            SqliteDialect.over(connection, subject="a test"),
            in_memory=True,
            faults=self,
            commit_point=FaultPoint.COMMIT,
            unconfirmed=StoreUncertain,
        )
        loop = asyncio.get_running_loop()
        return JobDatabase(database, loop=loop, on_trouble=self.told.append, clock=lambda: self.now)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_trouble_is_told_and_its_end(when: str) -> None:
    """Each group that fails; the end when writing has not failed for a second."""
    disk = Disk(when)
    database = disk.open()
    await database.write(lambda _: None)
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await database.write(lambda _: None)
    disk.is_full = False
    await database.write(lambda _: None)
    assert [text is not None and "disk is full" in text for text in disk.told] == [True, True]
    disk.now += CALM_SECONDS
    await database.write(lambda _: None)
    await database.write(lambda _: None)
    assert disk.told[2:] == [None]
    await database.close()


async def test_the_fault_of_one_write_is_no_trouble_of_the_store() -> None:
    """A conflict is an answer."""
    disk = Disk("before")
    database = disk.open()
    with pytest.raises(StoreConflict):
        await database.write(lambda _: StoreConflict("late"))
    assert disk.told == []
    await database.close()


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
