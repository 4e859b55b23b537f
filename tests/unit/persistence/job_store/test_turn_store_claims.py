"""Claims that wait together are written together; each has its own verdict, and none is told too early."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.ports.cluster import ClaimedJob, TurnClaim, Unbegun
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import NOTHING, Remembered
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.samples import ONE, TWO, claim, entry

pytestmark = pytest.mark.anyio
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
