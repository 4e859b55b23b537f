"""What the nodes of a cluster ask of its store beyond the suite of all: deliveries and jobs of dead nodes."""

import asyncio

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.job_store_schema import outbox
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.errors import StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NOTHING, Remembered, Settlement
from tests.unit.persistence import damaged_deliveries
from tests.unit.persistence.cluster_store import ClusterStore, unheard
from tests.unit.persistence.damaged_deliveries import raise_damaged
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.samples import ONE, TWO, claim, delivery, entry

pytestmark = pytest.mark.anyio


async def test_ids_that_differ_by_little_are_of_two_jobs(store: ClusterStore) -> None:
    """By case, a blank at the end or an accent; texts come back as they went, also outside of Unicode's first
    plane.
    """
    names = ["job", "JOB", "job ", "jöb", "\N{ROCKET}"]
    claims = [claim(name, labels={"l": name}, expected=NOTHING, sequence=1) for name in names]
    assert set(await store.shared.claim_all(claims)) == {None}
    loaded = [await store.shared.load(name) for name in names]
    assert [row.entry.labels for row in loaded if row is not None] == [{"l": name} for name in names]
    answers = [Remembered("s", name, b"d", name.encode(), 5, "job") for name in names]
    assert [await store.shared.remember_first(one, 0) for one in answers] == [True] * len(names)
    assert [await store.shared.recall("s", name, 0) for name in names] == answers


async def test_the_longest_keys_have_room(store: ClusterStore) -> None:
    """Of an Idempotency-Key, of its scope, which names a job, and of an instance that holds a part."""
    kept = Remembered("jobs/" + "j" * 260 + "/trigger", "k" * 255, b"d", b"a", 5, "j" * 260)
    assert await store.shared.remember_first(kept, 0)
    assert await store.shared.recall(kept.scope, kept.key, 0) == kept
    names = {"job_id": "j" * 260, "uid": "u" * 64, "tenant": "t" * 128, "job_name": "n" * 4_000}
    most = entry(**names, parent_job="p" * 260, parent_execution=1)
    await store.shared.claim(claim(entry=most))
    assert await store.catalogue.get(most.job_id) == most


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


@pytest.mark.parametrize("is_written", [True, False])
async def test_an_adoption_of_which_nobody_heard_is_looked_up(store: ClusterStore, is_written: bool) -> None:
    """What was written is handed over once; what was not stays the dead node's until it is adopted."""
    record = DeliveryRecord("d3", 1, 1, "succeed", "http://t", DeliveryState.DELIVERED)
    batch = Batch("uid", "job", "default", -257, 5, (record,))
    await store.shared.keep([delivery(1), delivery(2)], [], ONE)
    await store.shared.settle([Settlement(delivery(3), done=True, batch=batch)], 5, ONE)
    with unheard(store.database, is_written=is_written):
        assert await store.shared.adopt_records([TWO], TWO, 10) == [batch]
        with pytest.raises(StoreUncertain):
            await store.shared.adopt([TWO], TWO, 10, raise_damaged)
    await store.shared.settle([Settlement(delivery(2), done=True)], 5, ONE)
    late, again = ([delivery(1)], []) if is_written else ([], [delivery(1)])
    assert await store.shared.deliveries_in_doubt([], TWO) == late
    assert await store.shared.adopt([TWO], TWO, 10, raise_damaged) == again
    assert await store.shared.deliveries_in_doubt([], TWO) == []


@pytest.mark.parametrize("is_asked", [True, False])
async def test_what_was_kept_without_an_answer_is_had_once(store: ClusterStore, is_asked: bool) -> None:
    """A delivery of a state of 0.1.0: its job may be another node's before the state is read again."""
    with unheard(store.database, is_written=True), pytest.raises(StoreUncertain):
        await store.shared.keep([delivery(1)], [], ONE)
    if is_asked:
        assert await store.shared.unsent([delivery(1)], ONE) == [delivery(1)]
    assert await store.shared.deliveries_in_doubt([], ONE) == ([] if is_asked else [delivery(1)])
    assert await store.shared.deliveries_in_doubt([], ONE) == []


async def test_a_doubtful_adoption_ends_when_another_node_has_it(store: ClusterStore) -> None:
    """Should that node die, it is adopted like all else, and not handed over beside that."""
    three = Holder("three", "3")
    await store.shared.keep([delivery(1)], [], ONE)
    with unheard(store.database, is_written=False), pytest.raises(StoreUncertain):
        await store.shared.adopt([TWO], TWO, 10, raise_damaged)
    other = TurnStore(database=store.database)
    assert await other.adopt([TWO, three], three, 10, raise_damaged) == [delivery(1)]
    assert await store.shared.deliveries_in_doubt([three], TWO) == []
    assert await store.shared.adopt([TWO], TWO, 10, raise_damaged) == [delivery(1)]
    assert await store.shared.deliveries_in_doubt([], TWO) == []


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


async def test_what_a_dead_node_did_not_tell_the_history_is_told(store: ClusterStore) -> None:
    """It is written with the settlement, once, and goes when the history has it (SPEC section 7)."""
    record = DeliveryRecord("d1", 1, 1, "succeed", "http://t", DeliveryState.DELIVERED)
    batch = Batch("uid", "job", "default", -257, 5, (record,))
    for _ in range(2):
        await store.shared.settle([Settlement(delivery(1), done=True, batch=batch)], 5, ONE)
    await store.shared.settle([Settlement(delivery(2), done=False)], 5, ONE)
    assert await store.shared.adopt_records([ONE, TWO], TWO, 10) == []
    assert await store.shared.adopt_records([TWO], TWO, 10) == [batch]
    assert await store.shared.adopt_records([TWO], TWO, 10) == []
    await store.shared.written([("uid", -257), ("uid", -513)])
    assert await store.shared.adopt_records([ONE], ONE, 10) == []


async def test_what_the_history_has_after_an_outage_goes_however_much(store: ClusterStore) -> None:
    """More than a statement has room for."""
    record = DeliveryRecord("d1", 1, 1, "succeed", "http://t", DeliveryState.DELIVERED)
    batch = Batch("uid", "job", "default", 33_000, 5, (record,))
    await store.shared.settle([Settlement(delivery(1), done=True, batch=batch)], 5, ONE)
    await store.shared.written([("uid", number) for number in range(33_001)])
    assert await store.shared.adopt_records([TWO], TWO, 10) == []
    await store.shared.written([])


async def test_overdue_and_abandoned_jobs_are_found(store: ClusterStore) -> None:
    """The sweep asks the catalogue, never all actors."""
    await store.shared.claim(claim("late", due=Due(wall=50)))
    await store.shared.claim(claim("waits", due=Due(steady=60)))
    await store.shared.claim(claim("later", due=Due(wall=500, steady=500), holder=TWO))
    await store.shared.claim(claim("runs", live=1, holder=TWO))
    assert await store.shared.overdue(Now(60, 60), 10) == ["late", "waits"]
    assert list(await store.shared.abandoned([ONE], 200, 10)) == ["runs"]
    assert list(await store.shared.abandoned([ONE], 100, 10)) == ["runs", "later"]


async def test_entries_that_are_asked_for_together_are_read_together(store: ClusterStore) -> None:
    """One statement for all that wait; None where there is no such job."""
    for name in ("a", "b"):
        await store.shared.claim(claim(name))
    names = ("b", "none", "a", "b")
    with heard(store.database.dialect.engine) as statements:
        found = await asyncio.gather(*(store.catalogue.get(name) for name in names))
    assert found == [entry("b"), None, entry("a"), entry("b")]
    assert len([text for text, _ in statements if "FROM jobs" in text]) == 1


async def test_definitions_that_are_asked_for_together_are_read_together(store: ClusterStore) -> None:
    """Each caller has its own revision; None where there is none."""
    for revision, text in ((1, b"a1"), (2, b"a2")):
        await store.shared.claim(claim("a", revision=revision, expected=revision - 1, definition=text))
    await store.shared.claim(claim("b", definition=b"b1"))
    asked = [("uid-a", 2), ("uid-b", 1), ("uid-a", 1), ("uid-b", 2), ("uid-none", 1)]
    found = await asyncio.gather(*(store.shared.definition(uid, revision) for uid, revision in asked))
    assert found == [b"a2", b"b1", b"a1", None, None]
