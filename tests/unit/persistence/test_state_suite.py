"""What every ports.StateStore promises: a new implementation adds one line to OPENERS and passes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import (
    ExecutionState,
    FailureType,
    FiringOutcome,
    JobState,
    TriggeredBy,
)
from scheduler_service.domain.moments import DAY, Due, Now
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    FiringRecord,
    Noted,
    Record,
    StepEnded,
)
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.state.catalogue import JobQuery, JobSort
from scheduler_service.persistence.state.errors import CursorError
from scheduler_service.persistence.state.sqlite_store import SqliteStateStore
from scheduler_service.ports import (
    Batch,
    CatalogueEntry,
    Commit,
    Remembered,
    Settlement,
    StoreConflict,
    StoreUnavailable,
)

pytestmark = pytest.mark.anyio

Opener = Callable[[Path], Awaitable[SqliteStateStore]]

OPENERS: dict[str, Opener] = {
    "sqlite file": lambda folder: SqliteStateStore.open(folder=folder),
    "sqlite memory": lambda folder: SqliteStateStore.open(folder=None),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=OPENERS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteStateStore]:
    store = await OPENERS[request.param](tmp_path / "data")
    yield store
    await store.close()


def entry(job_id: str = "job", **changes: object) -> CatalogueEntry:
    values: dict[str, object] = {
        "job_id": job_id, "uid": f"uid-{job_id}", "tenant": "default", "job_name": f"name of {job_id}",
        "object_id": None, "creator": "api", "kind": "cron", "state": JobState.ACTIVE, "revision": 1,
        "labels": {}, "parent_job": None, "parent_execution": None, "next_fire": 5_000, "execute_number": 0,
        "request_counts": 0, "missed": 0, "latest": b"\x00\xff", "created_at": 1_000, "updated_at": 1_000,
    }  # fmt: skip
    return CatalogueEntry(**{**values, **changes})  # type: ignore[arg-type]


def commit(job_id: str = "job", *, expected: int = 0, **changes: object) -> Commit:
    parts = {"document": b"doc", "due": Due(), "sequence": expected + 1}
    names = set(Commit.__struct_fields__) - {"entry"}
    parts.update({name: changes.pop(name) for name in names & set(changes)})  # type: ignore[dict-item]
    chosen = changes.pop("entry", None) or entry(job_id, **changes)
    return Commit(entry=chosen, expected=expected, **parts)  # type: ignore[arg-type]


def delivery(number: int, **changes: object) -> Delivery:
    request = OutboundRequest("POST", "http://t/x", (("A", "b"),), b"\x00body")
    parts = {"uid": "u", "execute_number": 1, "request_counts": 1, "ordinal": number, "event": "finalFailed"}
    return Delivery(delivery_id=f"d{number}", request=request, **{**parts, **changes})  # type: ignore[arg-type]


def batch(sequence: int = 1, *, uid: str = "u", records: tuple[Record, ...] = ()) -> Batch:
    return Batch(uid=uid, job_id="job", tenant="default", sequence=sequence, at=7, records=records)


async def test_a_committed_turn_is_loaded_as_it_was(store: SqliteStateStore) -> None:
    """Entry, document, sequence and both due times come back as they were written (DESIGN section 5)."""
    written = commit(
        document=b"\x00\x01\xfe", due=Due(wall=10, steady=20), labels={"a": "ü\x00'", "b": '"'},
        object_id="o", parent_job="p", parent_execution=3, live=1, waiting=2, system=True, job_name="名\x00x",
    )  # fmt: skip
    await store.commit(written)
    stored = await store.load("job")
    assert stored is not None
    assert (stored.entry, stored.document, stored.sequence) == (written.entry, b"\x00\x01\xfe", 1)
    assert stored.due == Due(wall=10, steady=20)


async def test_an_unknown_job_is_none(store: SqliteStateStore) -> None:
    """Nothing is loaded, and no definition, of a job that never was."""
    assert await store.load("nobody") is None
    assert await store.definition("nobody", 1) is None
    assert await store.catalogue.get("nobody") is None


async def test_a_turn_over_an_old_sequence_is_refused(store: SqliteStateStore) -> None:
    """A commit counts only over the sequence that was read; refused, no part of it is written."""
    await store.commit(commit(sequence=5))
    late = commit(expected=4, document=b"late", deliveries=(delivery(1),), batch=batch(), definition=b"{}")
    with pytest.raises(StoreConflict):
        await store.commit(late)
    stored = await store.load("job")
    assert stored is not None
    assert stored.document == b"doc"
    assert await store.deliveries("", 10) == []
    assert await store.unwritten(("", 0), 10) == []
    assert await store.definition("uid-job", 1) is None


async def test_an_id_is_taken_once(store: SqliteStateStore) -> None:
    """Of two creations of one id the first one wins, in one group of writes too (SPEC section 10)."""
    first, second = store.commit(commit(document=b"1")), store.commit(commit(document=b"2"))
    await first
    with pytest.raises(StoreConflict):
        await second
    stored = await store.load("job")
    assert stored is not None
    assert stored.document == b"1"


async def test_a_turn_of_a_job_that_never_was_is_refused(store: SqliteStateStore) -> None:
    """A turn that expects a sequence finds no job."""
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=3))


async def test_a_conflict_fails_alone(store: SqliteStateStore) -> None:
    """Writes handed in together fail each on its own."""
    waiting = [store.commit(commit(f"job-{i}", expected=i % 2)) for i in range(100)]
    for number, answer in enumerate(waiting):
        if number % 2:
            with pytest.raises(StoreConflict):
                await answer
        else:
            await answer
    page = await store.catalogue.list(JobQuery(limit=500))
    assert len(page.items) == 50


async def test_writes_take_effect_in_their_order(store: SqliteStateStore) -> None:
    """Turns of one job that are handed in without waiting build on each other."""
    answers = [store.commit(commit(expected=n, document=str(n).encode(), live=n % 2)) for n in range(300)]
    for answer in answers:
        await answer
    stored = await store.load("job")
    assert stored is not None
    assert (stored.document, stored.sequence) == (b"299", 300)


async def test_a_change_of_the_face_and_of_the_turn_are_both_kept(store: SqliteStateStore) -> None:
    """Every member of the entry is written by every turn, whether or not it comes from the definition."""
    await store.commit(commit())
    await store.commit(commit(expected=1, execute_number=4, live=1, next_fire=None))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.entry.execute_number, stored.entry.next_fire, stored.entry.job_name) == (
        4,
        None,
        "name of job",
    )
    await store.commit(commit(expected=2, job_name="other", state=JobState.PAUSED, labels={"k": "v"}))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.entry.job_name, stored.entry.state, stored.entry.labels) == (
        "other", JobState.PAUSED, {"k": "v"},
    )  # fmt: skip


async def test_a_destroyed_job_keeps_counters_and_definitions_and_rings_no_more(
    store: SqliteStateStore,
) -> None:
    """History and counters outlive a destruction; alarms do not (SPEC section 10, DELETE)."""
    await store.commit(commit(definition=b"{1}", due=Due(wall=1, steady=1)))
    gone = {"state": JobState.DESTROYED, "document": None, "execute_number": 7, "due": Due(wall=1, steady=1)}
    await store.commit(commit(expected=1, **gone))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.document, stored.entry.execute_number, stored.due) == (None, 7, Due())
    assert await store.due_wall(10, 10) == []
    assert await store.due_steady(10, 10) == []
    assert await store.definition("uid-job", 1) == b"{1}"


@pytest.mark.parametrize("expected", [0, 2])
async def test_a_new_life_begins_over_a_destroyed_one(store: SqliteStateStore, expected: int) -> None:
    """Re-creation may expect 0 or the sequence of the destruction; the old definitions stay."""
    await store.commit(commit(definition=b"{1}"))
    await store.commit(commit(expected=1, document=None, state=JobState.DESTROYED))
    await store.commit(commit(expected=expected, uid="next", sequence=1, definition=b"{2}", execute_number=1))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.entry.uid, stored.sequence, stored.document) == ("next", 1, b"doc")
    assert await store.definition("uid-job", 1) == b"{1}"
    assert await store.definition("next", 1) == b"{2}"


async def test_a_turn_of_an_earlier_life_is_refused(store: SqliteStateStore) -> None:
    """Nothing of an earlier life fits a later one, even where the sequences are equal (SPEC section 1, uid)."""
    await store.commit(commit(uid="new"))
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=1, uid="old"))


async def test_forgetting_removes_destroyed_jobs_alone(store: SqliteStateStore) -> None:
    """`clean` removes the traces of destroyed jobs; afterwards counters start from 1 (SPEC section 10)."""
    await store.commit(commit("living", definition=b"{}"))
    await store.commit(commit("gone", definition=b"{}"))
    await store.commit(commit("gone", expected=1, document=None, state=JobState.DESTROYED))
    assert await store.forget("gone") is True
    assert await store.forget("gone") is False
    assert await store.forget("living") is False
    assert await store.load("gone") is None
    assert await store.definition("uid-gone", 1) is None
    assert await store.definition("uid-living", 1) == b"{}"


async def test_a_life_ends_is_forgotten_and_begins_within_one_group(store: SqliteStateStore) -> None:
    """The order of writes holds for forgetting as well."""
    answers = [
        store.commit(commit(definition=b"{1}")),
        store.commit(commit(expected=1, document=None, state=JobState.DESTROYED)),
        store.forget("job"),
        store.commit(commit(uid="next", definition=b"{2}")),
    ]
    assert [await answer for answer in answers] == [None, None, True, None]
    stored = await store.load("job")
    assert stored is not None
    assert stored.entry.uid == "next"
    assert await store.definition("uid-job", 1) is None
    assert await store.definition("next", 1) == b"{2}"


async def test_alarms_come_earliest_first_up_to_the_moment(store: SqliteStateStore) -> None:
    """Due times of both lines are read in order, the moment included, at most `limit`."""
    for number in (3, 1, 2):
        due = Due(wall=number * 10, steady=number * 100)
        await store.commit(commit(f"job-{number}", due=due))
    await store.commit(commit("idle"))
    assert await store.due_wall(20, 10) == [(10, "job-1"), (20, "job-2")]
    assert await store.due_steady(1000, 2) == [(100, "job-1"), (200, "job-2")]
    await store.commit(commit("job-1", expected=1, due=Due(wall=15)))
    assert await store.due_wall(15, 10) == [(15, "job-1")]
    assert await store.due_steady(150, 10) == []


async def test_open_jobs_are_those_with_live_executions(store: SqliteStateStore) -> None:
    """Recovery finds each job with an execution that runs or waits for a retry, page by page."""
    for number in range(4):
        await store.commit(commit(f"job-{number}", live=number % 2, waiting=1))
    assert await store.open_jobs("", 1) == ["job-1"]
    assert await store.open_jobs("job-1", 10) == ["job-3"]
    await store.commit(commit("job-1", expected=1, live=0))
    assert await store.open_jobs("", 10) == ["job-3"]


async def test_deliveries_are_kept_until_they_are_done(store: SqliteStateStore) -> None:
    """A delivery lies in its turn's transaction, changes by settlements and goes with the last one."""
    await store.commit(commit(deliveries=(delivery(1), delivery(2), delivery(3))))
    assert await store.deliveries("", 2) == [delivery(1), delivery(2)]
    changed = delivery(2, tries=3, due=9, state="outbox")
    await store.settle([Settlement(delivery(1), done=True), Settlement(changed, done=False)])
    assert await store.deliveries("", 10) == [changed, delivery(3)]
    assert await store.deliveries("d2", 10) == [delivery(3)]


async def test_a_delivery_that_is_settled_with_its_turn_is_gone(store: SqliteStateStore) -> None:
    """Handed in together, the turn that makes a delivery and its settlement leave nothing."""
    first = store.commit(commit(deliveries=(delivery(1),)))
    await store.settle([Settlement(delivery(1), done=True)])
    await first
    assert await store.deliveries("", 10) == []


RECORDS: tuple[Record, ...] = (
    ExecutionRecord(1, 1, ExecutionState.FAILED, TriggeredBy.MANUAL, 5, 5, failure_type=FailureType.LOST),
    AttemptStarted(1, 2, 3, "r"),
    AttemptEnded(1, 2, 3, "e", FailureType.HTTP, "m", 4),
    StepEnded(1, 2, 0, 3, Exchange("GET", "http://t", (("a", "b"),), b"\xff", response_body=b"\x00")),
    CheckEnded(1, 2, 0, 3, Exchange("GET", "http://t"), "running", "5%"),
    FeedbackSeen(1, 2, 3, b"{}", stale=True),
    Noted(1, 2, "k", "t", 3, 4),
    DeliveryRecord("d", 1, 2, "finalFailed", "http://t", "failed", exchange=Exchange("GET", "http://t")),
    FiringRecord(1, FiringOutcome.SKIPPED, 9, None, "misfire"),
)


async def test_records_wait_until_the_history_has_them(store: SqliteStateStore) -> None:
    """A turn's records are part of the state until they are confirmed (DESIGN section 3)."""
    await store.commit(commit(batch=batch(1, records=RECORDS)))
    await store.commit(commit(expected=1, batch=batch(2)))
    await store.commit(commit("other", batch=batch(1, uid="v")))
    assert await store.unwritten(("", 0), 2) == [batch(1, records=RECORDS), batch(2)]
    assert await store.unwritten(("u", 1), 10) == [batch(2), batch(1, uid="v")]
    await store.written([("u", 1), ("v", 1), ("never", 1)])
    assert await store.unwritten(("", 0), 10) == [batch(2)]


def test_every_kind_of_record_is_tried_above() -> None:
    """A new kind of record has to be known to the store's codec."""
    assert {type(record) for record in RECORDS} == set(Record.__subclasses__())


async def test_an_answer_is_recalled_for_a_day(store: SqliteStateStore) -> None:
    """An Idempotency-Key is honoured for 24 h, committed with its turn or alone (SPEC section 10)."""
    first = Remembered("POST /jobs", "key", b"\x01", b'{"a":1}', created_at=1_000)
    of_turn = Remembered("trigger", "key", b"\x02", b"{}", created_at=2_000)
    await store.remember(first)
    await store.commit(commit(remembered=of_turn))
    assert await store.recall("POST /jobs", "key", 1_000) == first
    assert await store.recall("POST /jobs", "key", 1_001) is None
    assert await store.recall("trigger", "key", 0) == of_turn
    assert await store.recall("trigger", "other", 0) is None
    await store.remember(Remembered("x", "y", b"", b"", created_at=DAY + 1_500))
    assert await store.recall("POST /jobs", "key", 0) is None
    assert await store.recall("trigger", "key", 0) == of_turn


async def test_the_clock_skew_is_kept(store: SqliteStateStore) -> None:
    """The host's steady line goes on from what was saved; never saved, it is 0."""
    assert await store.clock_skew() == 0
    await store.save_clock_skew(-(10**12))
    assert await store.clock_skew() == -(10**12)


async def test_a_closed_store_says_so() -> None:
    """After close every call raises StoreUnavailable; a second close does nothing."""
    store = await SqliteStateStore.open(folder=None)
    answer = store.commit(commit())
    await store.close()
    await answer
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.commit(commit())
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.load("job")
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.catalogue.get("job")


async def test_a_value_that_cannot_be_stored_fails_alone(store: SqliteStateStore) -> None:
    """A write whose values no database takes is refused; the others of its group are written."""
    names = [f"job-{i}" for i in range(20)]
    answers = [store.commit(commit(name, missed=2**70 if name == "job-7" else 0)) for name in names]
    for name, answer in zip(names, answers, strict=True):
        if name == "job-7":
            with pytest.raises(StoreUnavailable):
                await answer
        else:
            await answer
    assert len((await store.catalogue.list(JobQuery())).items) == 19


# Lists (SPEC section 10, GET /jobs)


async def ids(store: SqliteStateStore, **query: object) -> list[str]:
    """All ids of a list, in its order, over pages of two."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.catalogue.list(JobQuery(limit=2, cursor=cursor, **query))  # type: ignore[arg-type]
        found += [item.job_id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_each_filter_chooses(store: SqliteStateStore) -> None:
    """State, kind, label, creator, parent, text and system choose alone and together."""
    await store.commit(commit("a", kind="timing", labels={"team": "x", 'q"': "1"}, creator="svc"))
    await store.commit(commit("b", state=JobState.PAUSED, labels={"team": "y"}, object_id="Order_9"))
    await store.commit(commit("c", parent_job="a", parent_execution=1))
    await store.commit(commit("d", parent_job="a", parent_execution=2, tenant="other"))
    await store.commit(commit("s", system=True))
    await store.commit(commit("x"))
    await store.commit(commit("x", expected=1, document=None, state=JobState.DESTROYED))
    assert await ids(store) == ["a", "b", "c"]
    assert await ids(store, tenant=None) == ["a", "b", "c", "d"]
    assert await ids(store, tenant="other", parent_job="a") == ["d"]
    assert await ids(store, system=None) == ["a", "b", "c", "s"]
    assert await ids(store, system=True) == ["s"]
    assert await ids(store, states=(JobState.PAUSED,)) == ["b"]
    assert await ids(store, states=(JobState.DESTROYED,)) == ["x"]
    assert await ids(store, states=()) == ["a", "b", "c", "x"]
    assert await ids(store, kind="timing", creator="svc") == ["a"]
    assert await ids(store, labels=(("team", "x"), ('q"', "1"))) == ["a"]
    assert await ids(store, labels=(("team", "x"), ("team", "y"))) == []
    assert await ids(store, parent_job="a", parent_execution=1) == ["c"]
    assert await ids(store, text="order_") == ["b"]
    assert await ids(store, text="NAME OF a") == ["a"]


async def test_text_is_searched_literally(store: SqliteStateStore) -> None:
    """%, _ and \\ in a search stand for themselves."""
    for name in ("a%b", "a_b", "a\\b", "axb"):
        await store.commit(commit(name))
    assert await ids(store, text="a%b") == ["a%b"]
    assert await ids(store, text="a_b") == ["a_b"]
    assert await ids(store, text="a\\b") == ["a\\b"]
    assert await ids(store, text="'") == []


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", list(JobSort))
async def test_pages_follow_each_order(store: SqliteStateStore, sort: JobSort, descending: bool) -> None:
    """Every order is total: pages neither repeat nor miss a job, jobs without a value come last."""
    values = [5, None, 3, 5, None, 1, 3]
    for number, value in enumerate(values):
        moment = value or 0
        await store.commit(
            commit(
                f"j{number}", job_name=f"n{moment}", created_at=moment, updated_at=-moment, next_fire=value
            )  # fmt: skip
        )
    keys = {
        JobSort.JOB_ID: lambda i: i,
        JobSort.JOB_NAME: lambda i: (values[i] or 0, i),
        JobSort.CREATED_AT: lambda i: (values[i] or 0, i),
        JobSort.UPDATED_AT: lambda i: (-(values[i] or 0), i),
        JobSort.NEXT_FIRE_TIME: lambda i: (values[i] or 0, i),
    }
    wanted = sorted(range(7), key=keys[sort], reverse=descending)
    if sort is JobSort.NEXT_FIRE_TIME:
        wanted.sort(key=lambda i: values[i] is None)
    assert await ids(store, sort=sort, descending=descending) == [f"j{i}" for i in wanted]


async def test_a_cursor_is_stable_under_inserts(store: SqliteStateStore) -> None:
    """A job that is created between two pages moves no other one."""
    for name in ("b", "d", "f"):
        await store.commit(commit(name))
    page = await store.catalogue.list(JobQuery(limit=2))
    assert page.next_cursor is not None
    await store.commit(commit("a"))
    await store.commit(commit("e"))
    page = await store.catalogue.list(JobQuery(limit=2, cursor=page.next_cursor))
    assert [item.job_id for item in page.items] == ["e", "f"]
    assert page.next_cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "ä", "AAAA", "kw", "%%%", "A" * 5000])
async def test_a_bad_cursor_is_refused(store: SqliteStateStore, cursor: str) -> None:
    """A cursor that was never given out is an error of its own, not an empty page (SPEC section 10)."""
    with pytest.raises(CursorError, match="not given out"):
        await store.catalogue.list(JobQuery(cursor=cursor))


async def test_a_cursor_of_another_order_is_refused(store: SqliteStateStore) -> None:
    """A cursor belongs to its order and direction."""
    for name in ("a", "b"):
        await store.commit(commit(name))
    cursor = (await store.catalogue.list(JobQuery(limit=1))).next_cursor
    with pytest.raises(CursorError, match="another order"):
        await store.catalogue.list(JobQuery(cursor=cursor, descending=True))
    with pytest.raises(CursorError, match="another order"):
        await store.catalogue.list(JobQuery(cursor=cursor, sort=JobSort.CREATED_AT))


async def test_revisions_are_kept_as_they_were(store: SqliteStateStore) -> None:
    """Each definition of a life stays readable with the moment from which it held."""
    await store.commit(commit(definition=b"{1}"))
    await store.commit(commit(expected=1, revision=2, updated_at=2_000, definition=b"{2}"))
    found = await store.catalogue.revisions("uid-job")
    assert [(item.revision, item.created_at, item.text) for item in found] == [
        (1, 1_000, b"{1}"), (2, 2_000, b"{2}"),
    ]  # fmt: skip
    assert [item.revision for item in await store.catalogue.revisions("uid-job", after=1)] == [2]
    assert len(await store.catalogue.revisions("uid-job", limit=1)) == 1


async def test_children_and_lives_are_found(store: SqliteStateStore) -> None:
    """Children are found by their parent's execution, destroyed ones too; a job by its uid."""
    await store.commit(commit("c1", parent_job="p", parent_execution=1))
    await store.commit(commit("c2", parent_job="p", parent_execution=2))
    await store.commit(
        commit("c2", expected=1, parent_job="p", parent_execution=2, document=None, state=JobState.DESTROYED)
    )
    assert [child.job_id for child in await store.catalogue.children("p")] == ["c1", "c2"]
    assert [child.job_id for child in await store.catalogue.children("p", 2)] == ["c2"]
    assert [child.job_id for child in await store.catalogue.children("p", after="c1")] == ["c2"]
    found = await store.catalogue.find("uid-c1")
    assert found is not None
    assert found.job_id == "c1"
    assert await store.catalogue.find("uid-none") is None


async def test_upcoming_and_counts(store: SqliteStateStore) -> None:
    """What is planned lies between two moments; counts name due jobs, waiting and running executions."""
    for number in range(4):
        await store.commit(commit(f"j{number}", next_fire=number * 10, live=number, waiting=1))
    await store.commit(commit("idle", next_fire=None, state=JobState.PAUSED))
    found = await store.catalogue.upcoming(10, 30, 2)
    assert [item.job_id for item in found] == ["j1", "j2"]
    counts = await store.catalogue.counts(Now(wall=10, steady=0))
    assert (counts.due, counts.waiting, counts.running) == (2, 4, 6)
    assert counts.by_state == {JobState.ACTIVE: 4, JobState.PAUSED: 1}
    assert (await store.catalogue.counts(Now(wall=10, steady=0), tenant="other")).by_state == {}
