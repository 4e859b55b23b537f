"""The shared catalogue passes the suite of every catalogue; claims and leases have one winner."""

import asyncio

import msgspec
import pytest
import sqlalchemy as sa

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.leases import QueueQuery
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions
from scheduler_service.persistence.sql_cluster.schema import outbox
from scheduler_service.ports.cluster import ClaimedJob, TurnClaim
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.state import NOTHING, Remembered, Settlement
from tests.unit.persistence import damaged_deliveries
from tests.unit.persistence.damaged_deliveries import raise_damaged
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.queue_bench import REQUEST
from tests.unit.persistence.samples import delivery, entry
from tests.unit.persistence.sql_cluster.cluster_store import ONE, TWO, ClusterStore

pytestmark = pytest.mark.anyio


async def test_of_two_claims_from_one_state_one_wins(store: ClusterStore) -> None:
    """Who read something older changes nothing."""
    await store.shared.claim(TurnClaim(entry(), Due(), 0, 1, ONE, 10))
    claims = [TurnClaim(entry(), Due(), 1, 2, ONE, 10), TurnClaim(entry(), Due(), 1, 3, TWO, 10)]
    ends = await asyncio.gather(*(store.shared.claim(one) for one in claims), return_exceptions=True)
    assert [type(one) for one in ends].count(StoreConflict) == 1
    row = await store.shared.load("job")
    assert row is not None
    assert row.sequence in (2, 3)


async def test_who_reads_an_older_turn_never_writes(store: ClusterStore) -> None:
    """Neither its own holder, nor anybody after whatever time; nor who takes a living job for none."""
    await store.shared.claim(TurnClaim(entry(), Due(), 0, 5, ONE, 1_000, None, b"fifth"))
    for expected, holder in ((0, ONE), (NOTHING, ONE), (4, TWO)):
        with pytest.raises(StoreConflict):
            await store.shared.claim(TurnClaim(entry(), Due(), expected, 7, holder, 100_000))
    row = await store.shared.load("job")
    assert row == ClaimedJob(entry(), 5, ONE, Due(), b"fifth", at=1_000)


async def test_a_turn_of_a_forgotten_job_does_not_bring_it_back(store: ClusterStore) -> None:
    """Another node has destroyed it, and its row was removed: who still takes it for living is refused."""
    await store.shared.claim(TurnClaim(entry(), Due(), 0, 5, ONE, 1_000))
    await store.shared.claim(TurnClaim(entry(state=JobState.DESTROYED), Due(), 5, 6, TWO, 1_000))
    assert await store.shared.forget("job")
    with pytest.raises(StoreConflict):
        await store.shared.claim(TurnClaim(entry(), Due(), 5, 7, ONE, 2_000))
    assert await store.shared.load("job") is None


async def test_all_that_a_turn_writes_is_one_transaction(store: ClusterStore) -> None:
    """A turn that is refused leaves nothing; one that was taken, all of it."""
    part = QueuedPart(PartName("uid", 1, 1, 0, 0), "work", 1, REQUEST, QueueOptions(), 0, 1, "job", "default")
    kept = Remembered("trigger/job", "key", b"d", b"answer", 5, "job")
    whole = TurnClaim(
        entry(), Due(), 0, 1, ONE, 10, b"{}", b"state", (delivery(1),), (PublishParts((part,)),), kept
    )
    await store.shared.claim(TurnClaim(entry("job"), Due(), 0, 3, TWO, 10))
    with pytest.raises(StoreConflict):
        await store.shared.claim(whole)
    assert await written(store) == (None, [], None, 0)
    await store.shared.claim(msgspec.structs.replace(whole, expected=3, sequence=4))
    assert await written(store) == (b"{}", [delivery(1)], kept, 1)
    assert await store.shared.unsent([delivery(1), delivery(2)], ONE) == [delivery(1)]
    assert await store.shared.unsent([delivery(1)], TWO) == []


async def written(store: ClusterStore) -> tuple[object, ...]:
    """The definition, the deliveries, the answer, and how many parts are free."""
    figures = await store.queues.figures(QueueQuery("default"))
    return (
        await store.shared.definition("uid-job", 1),
        await store.shared.deliveries("", 10),
        await store.shared.recall("trigger/job", "key", 0),
        sum(one.depth for one in figures),
    )


async def test_each_claim_of_a_group_has_its_own_verdict(store: ClusterStore) -> None:
    """New jobs, known ones and those that another node holds, 300 at once; what loses writes nothing."""
    held = [TurnClaim(entry(f"held{n}"), Due(), 0, 1, TWO, 10) for n in range(50)]
    known = [TurnClaim(entry(f"known{n}"), Due(), 0, 1, ONE, 10) for n in range(100)]
    await asyncio.gather(*(store.shared.claim(one) for one in (*held, *known)))
    lost = [TurnClaim(entry(f"held{n}"), Due(wall=7), 0, 2, ONE, 11, b"{}", b"lost") for n in range(50)]
    moved = [TurnClaim(entry(f"known{n}"), Due(wall=8), 1, 2, ONE, 11, b"{1}") for n in range(100)]
    new = [TurnClaim(entry(f"new{n}", uid=f"u{n}"), Due(wall=9), 0, 1, ONE, 11, b"{2}") for n in range(150)]
    claims = [one for pair in zip(lost * 3, new, strict=True) for one in pair] + moved
    ends = await asyncio.gather(*(store.shared.claim(one) for one in claims), return_exceptions=True)
    assert {one.entry.job_id[:3] for one, end in zip(claims, ends, strict=True) if end} == {"hel"}
    assert sum(isinstance(end, StoreConflict) for end in ends) == 150
    assert "'held0'" in str(ends[0])
    assert await store.shared.overdue(Now(7, 0), 500) == []
    assert len(await store.shared.overdue(Now(9, 0), 500)) == 250
    held = await store.shared.load("held0")
    assert held is not None
    assert (held.holder, held.state) == (TWO, b"")
    assert [await store.shared.definition(uid, 1) for uid in ("u149", "uid-held0")] == [b"{2}", None]


async def test_claims_of_one_job_in_one_group_come_one_after_the_other(store: ClusterStore) -> None:
    """A caller that gave up left its claim in the queue: the next one sees what it wrote."""
    claims = [TurnClaim(entry(), Due(wall=n), n, n + 1, (ONE, TWO)[n % 2], 10) for n in range(5)]
    assert await asyncio.gather(*(store.shared.claim(one) for one in claims)) == [None] * 5
    row = await store.shared.load("job")
    assert row is not None
    assert (row.sequence, row.holder, row.due.wall) == (5, ONE, 4)


async def test_a_damaged_delivery_holds_up_none_behind_it(store: ClusterStore) -> None:
    """It stops one notification."""
    await store.shared.keep([delivery(number) for number in damaged_deliveries.ALL], [], ONE)

    def damage(connection: sa.Connection) -> None:
        torn = sa.update(outbox).where(outbox.c.delivery_id.in_(damaged_deliveries.DAMAGED))
        connection.execute(torn.values(content=damaged_deliveries.TORN))

    await store.database.write(damage)
    await damaged_deliveries.check(store.shared.deliveries)
    damaged: list[str] = []
    adopted = await store.shared.adopt([TWO], TWO, 10, lambda error: damaged.append(error.delivery_id))
    assert sorted(one.delivery_id for one in adopted) == ["d2", "d5"]
    assert sorted(damaged) == list(damaged_deliveries.DAMAGED)


async def test_a_delivery_that_is_done_does_not_come_back(store: ClusterStore) -> None:
    """A state of 0.1.0 that is read late may bring it again: it was known."""
    await store.shared.keep([delivery(1)], [], ONE)
    assert await store.shared.unsent([delivery(1)], ONE) == [delivery(1)]
    await store.shared.settle([Settlement(delivery(1), done=True)], 5, ONE)
    await store.shared.keep([delivery(1)], [], TWO)
    assert await store.shared.deliveries("", 10) == []
    assert await store.shared.unsent([delivery(1)], TWO) == []
    await store.shared.prune(Now(10_000_000, 10_000_000))
    await store.shared.keep([delivery(1)], [], TWO)
    assert await store.shared.unsent([delivery(1)], TWO) == [delivery(1)]


async def test_deliveries_of_dead_nodes_find_a_new_sender(store: ClusterStore) -> None:
    """Those of living nodes are left alone."""
    await store.shared.keep([delivery(1)], [], ONE)
    await store.shared.keep([delivery(2)], [], TWO)
    taken = await store.shared.adopt([TWO], TWO, 10, raise_damaged)
    assert [one.delivery_id for one in taken] == ["d1"]
    assert await store.shared.adopt([TWO], TWO, 10, raise_damaged) == []


async def test_overdue_and_abandoned_jobs_are_found(store: ClusterStore) -> None:
    """The sweep asks the catalogue, never all actors."""
    await store.shared.claim(TurnClaim(entry("late"), Due(wall=50), 0, 1, ONE, 100))
    await store.shared.claim(TurnClaim(entry("waits"), Due(steady=60), 0, 1, ONE, 100))
    await store.shared.claim(TurnClaim(entry("later"), Due(wall=500, steady=500), 0, 1, TWO, 100))
    await store.shared.claim(TurnClaim(entry("runs", live=1), Due(), 0, 1, TWO, 100))
    assert await store.shared.overdue(Now(60, 60), 10) == ["late", "waits"]
    assert list(await store.shared.abandoned([ONE], 200, 10)) == ["runs"]
    assert list(await store.shared.abandoned([ONE], 100, 10)) == ["runs", "later"]


async def test_entries_that_are_asked_for_together_are_read_together(store: ClusterStore) -> None:
    """One statement for all that wait; None where there is no such job."""
    for name in ("a", "b"):
        await store.shared.claim(TurnClaim(entry(name), Due(), 0, 1, ONE, 100))
    names = ("b", "none", "a", "b")
    with heard(store.database.dialect.engine) as statements:
        found = await asyncio.gather(*(store.catalogue.get(name) for name in names))
    assert found == [entry("b"), None, entry("a"), entry("b")]
    assert len([text for text, _ in statements if "FROM jobs" in text]) == 1


async def test_definitions_that_are_asked_for_together_are_read_together(store: ClusterStore) -> None:
    """Each caller has its own revision; None where there is none."""
    for revision, text in ((1, b"a1"), (2, b"a2")):
        brought = entry("a", revision=revision)
        await store.shared.claim(TurnClaim(brought, Due(), revision - 1, revision, ONE, 100, text))
    await store.shared.claim(TurnClaim(entry("b"), Due(), 0, 1, ONE, 100, b"b1"))
    asked = [("uid-a", 2), ("uid-b", 1), ("uid-a", 1), ("uid-b", 2), ("uid-none", 1)]
    found = await asyncio.gather(*(store.shared.definition(uid, revision) for uid, revision in asked))
    assert found == [b"a2", b"b1", b"a1", None, None]
