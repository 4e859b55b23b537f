"""What the nodes of a cluster ask of its store beyond the suite of all: deliveries and jobs of dead nodes."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState, JobState
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.records import DeliveryRecord
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.claim_rows import OWN_CLAIMS
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import outbox
from scheduler_service.persistence.job_store.row_cache import KnownRows
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.ports.cluster import ClaimedJob, TurnClaim, Unbegun
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NOTHING, Remembered, Settlement, StoredJob
from tests.unit.persistence import damaged_deliveries
from tests.unit.persistence.cluster_store import ClusterStore, unheard
from tests.unit.persistence.damaged_deliveries import raise_damaged
from tests.unit.persistence.hearing import heard
from tests.unit.persistence.samples import ONE, TWO, claim, commit, delivery, entry

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


NOW = 100_000
COUNT = 60


async def take_all(store: ClusterStore, claims: Sequence[TurnClaim]) -> list[object]:
    """All at the same moment; None, or the error, for each."""
    found = await asyncio.gather(*(store.shared.claim(one) for one in claims), return_exceptions=True)
    return list(found)


async def test_claims_of_one_creation_are_one_transaction(store: ClusterStore) -> None:
    """Those that find no row are taken with all that they bring; of others nothing is written."""
    await take_all(store, [claim("there", sequence=7, definition=b"old", state=b"state")])
    await take_all(store, [claim("buried", sequence=7, entry=entry("buried", state=JobState.DESTROYED))])
    brought = {"definition": b"{}", "state": b"first"}
    names = ("new", "there", "buried", *(f"n{number}" for number in range(300)))
    sizes, *_ = store.database.samples()
    verdicts = await store.shared.claim_all(
        [claim(name, expected=NOTHING, sequence=8, **brought) for name in names]
    )
    later, *_ = store.database.samples()
    assert (sum(later.buckets), later.value) == (sum(sizes.buckets) + 1, sizes.value + len(names))
    assert [type(one) for one in verdicts[:3]] == [type(None), StoreConflict, StoreConflict]
    assert "'there'" in str(verdicts[1])
    assert set(verdicts[3:]) == {None}
    rows = [await store.shared.load(name) for name in names[:3]]
    assert [row.state for row in rows if row is not None] == [b"first", b"state", b""]
    assert await store.shared.definition("uid-there", 1) == b"old"
    assert await store.shared.definition("uid-n299", 1) == b"{}"


async def test_creations_that_wait_together_are_one_transaction(store: ClusterStore) -> None:
    """With the answers under their Idempotency-Keys; one that finds a row leaves none."""
    await take_all(store, [claim("there", sequence=7)])
    names = ("there", *(f"n{number}" for number in range(COUNT)))
    answers = {name: Remembered(f"jobs/{name}", "key", b"digest", b"created", NOW, name) for name in names}
    brought = {"definition": b"{}", "state": b"first"}
    claims = [
        claim(name, expected=NOTHING, sequence=8, remembered=answers[name], **brought) for name in names
    ]
    sizes, *_ = store.database.samples()
    verdicts = await asyncio.gather(*(store.shared.claim_all([one]) for one in claims))
    later, *_ = store.database.samples()
    assert (sum(later.buckets), later.value) == (sum(sizes.buckets) + 1, sizes.value + len(names))
    assert [type(one) for (one,) in verdicts] == [StoreConflict] + [type(None)] * COUNT
    kept = [await store.shared.recall(f"jobs/{name}", "key", NOW) for name in names]
    assert kept == [None, *(answers[name] for name in names[1:])]


async def test_jobs_whose_actor_has_taken_no_turn_are_found(store: ClusterStore) -> None:
    """By their moments, page by page; one that was claimed again, or that has fired, is not among them."""
    dues = {
        "b": 200,
        "a": 200,
        "c": 300,
        "far": 900,
        "never": None,
        "begun": 250,
        "alone": 270,
    }
    claims = [
        claim(
            name,
            expected=NOTHING,
            sequence=8,
            due=Due(due),
            is_first=name != "alone",
            entry=entry(name, created_at=7),
        )
        for name, due in dues.items()
    ]
    assert set(await store.shared.claim_all(claims)) == {None}
    await store.shared.claim(claim("begun", expected=8, sequence=9, due=Due(250)))
    find = store.shared.unbegun
    assert await find((0, ""), 300, 10) == [Unbegun(name, dues[name] or 0, 7, ONE) for name in "abc"]
    assert [one.job_id for one in await find((0, ""), 300, 2)] == ["a", "b"]
    assert [one.job_id for one in await find((200, "a"), 300, 9)] == ["b", "c"]
    assert await find((300, "c"), 899, 9) == []


async def test_two_creations_of_the_same_jobs_share_them(cluster_url: str) -> None:
    """In opposite orders, both transactions open at once."""
    stores = [await ClusterStore.open(cluster_url), await ClusterStore.open(cluster_url)]
    try:
        first = uuid.uuid4()
        claims = [
            claim(f"{first}-{number}", expected=NOTHING, sequence=1, state=b"state") for number in range(200)
        ]
        ends = await asyncio.gather(
            stores[0].shared.claim_all(claims), stores[1].shared.claim_all(claims[::-1])
        )
        for one, two in zip(ends[0], reversed(ends[1]), strict=True):
            assert {type(one), type(two)} == {type(None), StoreConflict}
    finally:
        for store in stores:
            await store.close()


async def test_a_row_that_cannot_be_read_is_told_to_who_asked_for_it(store: ClusterStore) -> None:
    """Others that are loaded at the same moment are found, and so is what is asked for later."""
    await take_all(store, [claim("damaged"), claim("sound")])
    damage = sa.update(jobs).where(jobs.c.job_id == "damaged").values(labels="{")
    await store.database.write(lambda connection: connection.execute(damage))
    async with asyncio.timeout(10):
        asked = [store.shared.load(name) for name in ("damaged", "sound", "none")]
        damaged, sound, none = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(damaged, StoreUnavailable)
        assert isinstance(sound, ClaimedJob)
        assert none is None
        assert await store.shared.load("sound") == sound


async def test_a_group_that_cannot_be_written_fails_for_each(tmp_path: Path) -> None:
    """Nobody is told that a claim is taken; a repetition, when the table is there again, takes all."""
    store = await ClusterStore.open(f"sqlite:///{tmp_path}/cluster.db")
    try:
        claims = [claim(f"j{number}") for number in range(5)]
        await store.database.write(lambda connection: connection.exec_driver_sql(AWAY))
        verdicts = await take_all(store, claims)
        assert [type(one) for one in verdicts] == [StoreUnavailable] * 5
        await store.database.write(lambda connection: connection.exec_driver_sql(BACK))
        assert await take_all(store, claims) == [None] * 5
    finally:
        await store.close()


async def test_a_commit_without_an_end_is_uncertain_for_each(postgres_url: str) -> None:
    """The database refuses at the commit itself: no claim of the group is reported as taken."""
    async with refusing(postgres_url, "RAISE 'refused'") as store:
        claims = [claim(f"j{number}", definition=b"{}") for number in range(5)]
        assert [type(one) for one in await take_all(store, claims)] == [StoreUncertain] * 5


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("RAISE 'refused'", StoreUnavailable),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", StoreUncertain),
    ],
)
async def test_a_claim_that_is_one_statement_is_certain_where_the_server_says_so(
    postgres_url: str, answer: str, error: type[StoreError]
) -> None:
    """A refusal is certain; where the connection ends instead, nobody knows. The next one is taken."""
    async with refusing(postgres_url, answer) as store:
        claims = [claim(f"j{number}", state=b"state") for number in range(5)]
        assert [type(one) for one in await take_all(store, claims)] == [error] * 5
        await store.database.write(
            lambda connection: connection.exec_driver_sql("DROP TRIGGER at_commit ON jobs")
        )
        assert await take_all(store, claims) == [None] * 5


@contextlib.asynccontextmanager
async def refusing(url: str, answer: str) -> AsyncIterator[ClusterStore]:
    """A store whose server does `answer` when a job is to be committed."""
    store = await ClusterStore.open(url)
    try:
        for text in (REFUSAL[0].replace("RAISE 'refused'", answer), REFUSAL[1]):
            await store.database.write(lambda connection, text=text: connection.exec_driver_sql(text))  # type: ignore[misc]
        yield store
    finally:
        await store.close()


async def test_a_claim_is_durable_before_it_is_reported(tmp_path: Path) -> None:
    """Who asks the database from elsewhere finds each one that was reported, in the moment of its report."""
    url = f"sqlite:///{tmp_path}/cluster.db"
    store, other = await ClusterStore.open(url), await JobDatabase.open(url=url)
    elsewhere = TurnStore(database=other)

    async def take(number: int) -> int:
        await store.shared.claim(claim(f"j{number}"))
        row = await elsewhere.load(f"j{number}")
        assert row is not None
        return row.sequence

    try:
        assert await asyncio.gather(*map(take, range(COUNT))) == [1] * COUNT
    finally:
        await other.close()
        await store.close()


async def test_two_nodes_share_in_a_server(cluster_url: str) -> None:
    """The same, where both transactions are open at once: none waits for the other in a circle."""
    database = await JobDatabase.open(url=cluster_url)
    asked = DEADLOCKS[database.dialect.engine.dialect.name]

    async def count_deadlocks() -> int:
        return int(await database.read(lambda connection: connection.exec_driver_sql(asked).scalar_one()))

    try:
        before = await count_deadlocks()
        for _ in range(3):
            await share(cluster_url)
        assert await count_deadlocks() == before
    finally:
        await database.close()


async def share(url: str) -> None:
    """Two stores over one database claim the same jobs."""
    stores = [await ClusterStore.open(url), await ClusterStore.open(url)]
    try:
        first = uuid.uuid4()
        mine = [claim(f"{first}-{number}") for number in range(COUNT)]
        theirs = [claim(f"{first}-{number}", sequence=2, holder=TWO) for number in reversed(range(COUNT))]
        ends = await asyncio.gather(take_all(stores[0], mine), take_all(stores[1], theirs))
        ends[1].reverse()
        for one, two in zip(*ends, strict=True):
            assert {type(one), type(two)} == {type(None), StoreConflict}
            assert not isinstance(one, StoreError) or isinstance(one, StoreConflict)
    finally:
        for store in stores:
            await store.close()


DEADLOCKS = {
    "postgresql": "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    "mysql": "SELECT variable_value FROM information_schema.global_status "
    "WHERE variable_name = 'INNODB_DEADLOCKS'",
}
AWAY = "ALTER TABLE jobs RENAME TO elsewhere"
BACK = "ALTER TABLE elsewhere RENAME TO jobs"
REFUSAL = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$",
    "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION refuse()",
)


def note(known: KnownRows, job_id: str) -> None:
    """Its row was read, as it is after its first turn."""
    turn = commit(job_id, sequence=1)
    known.note(StoredJob(turn.entry, 1, turn.document, turn.due))


def is_whole(known: KnownRows, job_id: str) -> bool:
    """Whether its second turn is written with all columns."""
    ((statement, _),) = known.plan([claim(job_id, expected=1, state=b"x")])
    return statement.columns == OWN_CLAIMS.columns


def test_the_rows_noted_last_are_known() -> None:
    """Those noted longest ago go first; a row that is noted again counts as new."""
    known = KnownRows(most=2)
    for job_id in ("a", "b", "a", "c"):
        note(known, job_id)
    assert [is_whole(known, job_id) for job_id in "abc"] == [False, True, False]


def test_a_plan_is_no_knowledge() -> None:
    """Only a turn that has won says how its row is; after one that was lost nothing is known."""
    known = KnownRows()
    note(known, "a")
    turn = claim("a", expected=1, state=b"x")
    for _ in range(2):  # the first transaction failed
        assert not is_whole(known, "a")
    known.settle([turn], [None])
    assert is_whole(known, "a")  # it expects the turn before
    note(known, "a")
    assert not is_whole(known, "a")
    known.settle([turn], [StoreConflict("late")])
    assert is_whole(known, "a")
