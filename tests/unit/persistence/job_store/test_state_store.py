"""The tables of a shared database with one service that has them alone (SPEC section 15)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.maintenance.folder_formats import migrate_server
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store import database_lock
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.database_lock import ServiceLock
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.job_store.state_store import ServerStateStore
from scheduler_service.persistence.sql.database import open_dialect
from scheduler_service.persistence.sql.migrations import current_version
from scheduler_service.ports.errors import StoreDamaged, StoreLocked, StoreUnavailable
from scheduler_service.ports.state import Remembered, Settlement
from tests.unit.persistence.samples import commit, delivery
from tests.unit.persistence.servers import command

pytestmark = pytest.mark.anyio
END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
)


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[ServerStateStore]:
    """An open store, closed afterwards."""
    store = await ServerStateStore.open(url=url, **options)
    try:
        yield store
    finally:
        await store.close()


async def test_one_service_has_the_database(cluster_url: str) -> None:
    """Another one is refused while the first one lives, and follows when it has ended."""
    async with opened(cluster_url) as first:
        with pytest.raises(StoreLocked, match="another service has the jobs in this database"):
            await claim_shortly(cluster_url)
        await first.commit(commit())
    async with opened(cluster_url) as second:
        assert await second.load("job") is not None


async def test_a_start_waits_for_the_end_of_the_one_before(cluster_url: str) -> None:
    """A service that was killed may be there for its server a moment longer."""
    first = await ServerStateStore.open(url=cluster_url)
    starting = asyncio.ensure_future(ServerStateStore.open(url=cluster_url))
    await asyncio.to_thread(lambda: None)
    assert not starting.done()
    await first.close()
    await (await starting).close()


async def test_starts_are_counted_and_the_name_stays(cluster_url: str) -> None:
    """`boot` rises with each opening; a name that is given replaces the one that was drawn."""
    found = []
    for name in ("", "", "given", ""):
        async with opened(cluster_url, node_id=name) as store:
            found.append((store.boot, store.node_id))
    assert [boot for boot, _ in found] == [1, 2, 3, 4]
    assert found[0][1] == found[1][1] != "given"
    assert [name for _, name in found[2:]] == ["given", "given"]


async def test_a_cluster_and_a_service_do_not_share_a_database(cluster_url: str) -> None:
    """Whichever came first stays; the other one is told what to do."""
    async with opened(cluster_url):
        pass
    shared = await JobDatabase.open(url=cluster_url)
    with pytest.raises(StoreLocked, match="a service that is alone"):
        await Nodes(database=shared).next_epoch()
    await shared.close()


async def test_a_service_does_not_start_over_a_cluster(cluster_url: str) -> None:
    """Also one of 0.1.0, which has said nothing but its epochs."""
    shared = await JobDatabase.open(url=cluster_url)
    await Nodes(database=shared).next_epoch()
    await shared.close()
    command(cluster_url, "DELETE FROM marks WHERE name = 'placement'")
    with pytest.raises(StoreLocked, match="jobs of a cluster: start its nodes, with --runtime dapr"):
        await ServerStateStore.open(url=cluster_url)


async def test_a_lost_connection_costs_nothing(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has ended all of them: the lock is taken again, and turns go on."""
    monkeypatch.setattr(database_lock, "CHECK_SECONDS", 0.01)
    told: asyncio.Queue[str | None] = asyncio.Queue()
    async with opened(postgres_url, on_trouble=told.put_nowait) as store:
        await store.commit(commit())
        command(postgres_url, END_OTHERS)
        async with asyncio.timeout(30):
            assert await told.get()
            while await told.get() is not None:
                pass
        with pytest.raises(StoreLocked):
            await claim_shortly(postgres_url)
        await store.commit(commit(expected=1))


async def test_who_has_lost_the_database_writes_nothing_more(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another service has taken it, and has ended since: all writes are refused, and the owner is told."""
    monkeypatch.setattr(database_lock, "CHECK_SECONDS", 0.01)
    taken = asyncio.Event()
    async with opened(cluster_url, on_taken=taken.set) as store:
        await store.commit(commit())
        async with opened(cluster_url, is_first=False) as sibling:
            command(cluster_url, "UPDATE marks SET value = value + 1 WHERE name = 'service'")
            writes: list[Awaitable[object]] = [
                store.commit(commit(expected=1)),
                store.settle([Settlement(delivery(1), done=False)]),
                store.remember(Remembered("s", "k", b"", b"{}", created_at=1)),
                store.forget("job"),
                sibling.commit(commit("other")),
            ]
            for write in writes:
                with pytest.raises(StoreUnavailable, match="another service has the jobs"):
                    await write
            assert isinstance((await store.commit_all([commit("many")]))[0], StoreUnavailable)
        async with asyncio.timeout(30):
            await taken.wait()


async def test_the_tables_of_a_cluster_are_left_as_they_are(cluster_url: str) -> None:
    """A refused start migrates nothing: older nodes could not start again."""
    shared = await JobDatabase.open(url=cluster_url)
    await Nodes(database=shared).next_epoch()
    await shared.close()
    command(cluster_url, "UPDATE cluster_version SET version_num = '0008'")
    with pytest.raises(StoreLocked, match="jobs of a cluster"):
        await ServerStateStore.open(url=cluster_url)
    with pytest.raises(StoreLocked, match="jobs of a cluster"):
        await asyncio.to_thread(migrate_server, cluster_url, cluster_url)
    database = open_dialect(cluster_url, subject="the test")
    with database.engine.connect() as connection:
        found = current_version(connection, MIGRATIONS)
    database.engine.dispose()
    command(cluster_url, f"UPDATE cluster_version SET version_num = '{MIGRATIONS.head}'")  # of all tests
    assert found == "0008"


async def test_what_is_done_before_a_first_start_may_refuse_it(cluster_url: str) -> None:
    """It is asked once, before any table is made."""
    asked: list[str] = []

    def refuse() -> None:
        asked.append("new")
        raise StoreDamaged("the jobs are missing")

    with pytest.raises(StoreDamaged):
        await ServerStateStore.open(url=cluster_url, on_new=refuse)
    for _ in range(2):
        async with opened(cluster_url, on_new=lambda: asked.append("again")):
            pass
    assert asked == ["new", "again"]


async def claim_shortly(url: str) -> None:
    """Another service, that does not wait."""
    await (await ServiceLock.claim(url=url, patience=0)).release()
