"""What every store promises of turns, deliveries, answers, alarms and records."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.execution import DeliveryState, JobState
from scheduler_service.domain.leases import QueueQuery
from scheduler_service.domain.moments import DAY, Due
from scheduler_service.domain.records import Noted, Record
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.hosts.background_tasks import LightTasks
from scheduler_service.persistence.job_store.record_groups import BatchKey
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable
from scheduler_service.ports.state import NOTHING, Commit, OpenStore, Remembered, Settlement
from tests.present import present
from tests.unit.persistence.crashing import GROUPED, fork
from tests.unit.persistence.queue_bench import REQUEST
from tests.unit.persistence.samples import RECORDS, batch, commit, delivery

pytestmark = pytest.mark.anyio
NEW, LOST = Due(wall=9), Due(wall=7)
MIB = 1 << 20
PATIENCE = 60.0
Outcomes = dict[int, tuple[set[BatchKey], set[BatchKey]]]
"""By the turns that a life has left of each job: the records that have to be there, and that may be."""


async def test_a_committed_turn_is_loaded_as_it_was(store: OpenStore) -> None:
    """Entry, document, sequence and both due times come back as they were written."""
    written = commit(
        document=b"\x00\x01\xfe", due=Due(wall=10, steady=20), labels={"a": "ü\x00'", "b": '"'},
        object_id="o", parent_job="p", parent_execution=3, live=1, waiting=2, system=True, job_name="名x",
    )  # fmt: skip
    await store.commit(written)
    stored = present(await store.load("job"))
    assert (stored.entry, stored.document, stored.sequence) == (written.entry, b"\x00\x01\xfe", 1)
    assert stored.due == Due(wall=10, steady=20)
    # Nothing is loaded, and no definition, of a job that never was
    assert await store.load("nobody") is None
    assert await store.definition("nobody", 1) is None
    assert await store.catalogue.get("nobody") is None
    # The host's steady line goes on from what was saved; never saved, it is 0
    assert await store.clock_skew() == 0
    await store.save_clock_skew(-(10**12))
    assert await store.clock_skew() == -(10**12)


async def test_all_that_a_turn_writes_is_one_transaction(store: OpenStore) -> None:
    """A turn counts only over the sequence that was read: refused, it writes nothing; taken, all of it.

    Who holds a living job for none is refused, too.
    """
    part = QueuedPart(PartName("uid", 1, 1, 0, 0), "work", 1, REQUEST, QueueOptions(), 0, 1, "job", "default")
    kept = Remembered("trigger/job", "key", b"d", b"answer", 5, "job")
    whole = commit(
        expected=4, document=b"late", deliveries=(delivery(1),), definition=b"{}", batch=batch(),
        remembered=kept, queued=(PublishParts((part,)),),
    )  # fmt: skip

    async def written() -> tuple[object, ...]:
        stored = present(await store.load("job"))
        return (
            stored.document,
            await store.definition("uid-job", 1),
            await store.deliveries("", 10),
            await store.recall("trigger/job", "key", 0),
            sum(one.depth for one in await store.queues.figures(QueueQuery("default"))),
        )

    await store.commit(commit(sequence=5))
    for expected in (0, 4, NOTHING):
        with pytest.raises(StoreConflict):
            await store.commit(replace(whole, expected=expected))
    assert await written() == (b"doc", None, [], None, 0)
    await store.commit(replace(whole, expected=5, sequence=6))
    assert await written() == (b"late", b"{}", [delivery(1)], kept, 1)


async def test_an_id_is_taken_once(store: OpenStore) -> None:
    """Of two creations of one id the first one wins, in one group of writes too (SPEC section 10)."""
    ends = await commit_together(store, [commit(document=b"1"), commit(document=b"2")])
    assert [type(end) for end in ends] == [type(None), StoreConflict]
    stored = present(await store.load("job"))
    assert stored.document == b"1"


async def commit_together(store: OpenStore, commits: Sequence[Commit]) -> list[object]:
    """At one moment: what became of each."""
    return await asyncio.gather(*(store.commit(one) for one in commits), return_exceptions=True)


async def test_a_turn_of_a_job_that_is_not_there_is_refused(store: OpenStore) -> None:
    """One that never was, or that was destroyed and forgotten meanwhile: it is not brought back."""
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=3))
    await store.commit(commit())
    await store.commit(commit(expected=1, document=None, state=JobState.DESTROYED))
    assert await store.forget("job")
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=2))
    assert await store.load("job") is None


async def test_each_turn_of_a_group_has_its_own_verdict(store: OpenStore) -> None:
    """New jobs, known ones and those that went on, 300 at once; what loses writes nothing."""
    await commit_together(store, [commit(f"known{n}") for n in range(100)])
    await commit_together(store, [commit(f"moved{n}", sequence=5) for n in range(50)])
    lost = [commit(f"moved{n}", expected=1, due=LOST, document=b"lost", definition=b"{}") for n in range(50)]
    new = [commit(f"new{n}", due=NEW, definition=b"{2}") for n in range(150)]
    taken = [commit(f"known{n}", expected=1, due=NEW, definition=b"{1}") for n in range(100)]
    turns = [one for pair in zip(lost * 3, new, strict=True) for one in pair] + taken
    ends = await commit_together(store, turns)
    refused = [
        turn.entry.job_id for turn, end in zip(turns, ends, strict=True) if isinstance(end, StoreConflict)
    ]
    assert sorted(refused) == sorted(one.entry.job_id for one in lost * 3)
    stored = [await store.load(name) for name in ("moved49", "known99", "new149")]
    assert [one and (one.sequence, one.due) for one in stored] == [(5, Due()), (2, NEW), (1, NEW)]
    texts = [await store.definition(f"uid-{name}", 1) for name in ("moved0", "known0", "new0")]
    assert texts == [None, b"{1}", b"{2}"]


async def test_writes_take_effect_in_their_order(store: OpenStore) -> None:
    """Turns of one job that are handed in without waiting build on each other."""
    turns = [commit(expected=n, document=str(n).encode(), live=n % 2) for n in range(100)]
    assert await commit_together(store, turns) == [None] * 100
    stored = present(await store.load("job"))
    assert (stored.document, stored.sequence) == (b"99", 100)


async def test_a_change_of_the_face_and_of_the_turn_are_both_kept(store: OpenStore) -> None:
    """Every member of the entry is written by every turn, whether or not it comes from the definition."""
    await store.commit(commit())
    await store.commit(commit(expected=1, execute_number=4, live=1, next_fire=None))
    stored = present(await store.load("job"))
    assert (stored.entry.execute_number, stored.entry.next_fire, stored.entry.job_name) == (
        4,
        None,
        "name of job",
    )
    await store.commit(commit(expected=2, job_name="other", state=JobState.PAUSED, labels={"k": "v"}))
    stored = present(await store.load("job"))
    assert (stored.entry.job_name, stored.entry.state, stored.entry.labels) == (
        "other", JobState.PAUSED, {"k": "v"},
    )  # fmt: skip


async def test_a_destroyed_job_keeps_counters_and_definitions_and_rings_no_more(
    store: OpenStore,
) -> None:
    """History and counters outlive a destruction; alarms do not (SPEC section 10, DELETE)."""
    await store.commit(commit(definition=b"{1}", due=Due(wall=1, steady=1)))
    gone: dict[str, Any] = {"state": JobState.DESTROYED, "document": None, "due": Due(wall=1, steady=1)}
    await store.commit(commit(expected=1, execute_number=7, **gone))
    stored = present(await store.load("job"))
    assert (stored.document, stored.entry.execute_number, stored.due) == (None, 7, Due())
    assert await store.definition("uid-job", 1) == b"{1}"


@pytest.mark.parametrize("expected", [0, 2])
async def test_a_new_life_begins_over_a_destroyed_one(store: OpenStore, expected: int) -> None:
    """Re-creation may expect 0 or the sequence of the destruction; the old definitions stay."""
    await store.commit(commit(definition=b"{1}"))
    await store.commit(commit(expected=1, document=None, state=JobState.DESTROYED))
    await store.commit(commit(expected=expected, uid="next", sequence=1, definition=b"{2}", execute_number=1))
    stored = present(await store.load("job"))
    assert (stored.entry.uid, stored.sequence, stored.document) == ("next", 1, b"doc")
    assert await store.definition("uid-job", 1) == b"{1}"
    assert await store.definition("next", 1) == b"{2}"


async def test_a_turn_of_an_earlier_life_is_refused(store: OpenStore) -> None:
    """Nothing of an earlier life fits a later one, even where sequences are equal (SPEC section 1)."""
    await store.commit(commit(uid="new"))
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=1, uid="old"))


async def test_forgetting_removes_destroyed_jobs_alone(store: OpenStore) -> None:
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


async def test_a_life_ends_is_forgotten_and_begins_within_one_group(store: OpenStore) -> None:
    """The order of writes holds for forgetting as well."""
    answers = [
        store.commit(commit(definition=b"{1}")),
        store.commit(commit(expected=1, document=None, state=JobState.DESTROYED)),
        store.forget("job"),
        store.commit(commit(uid="next", definition=b"{2}")),
    ]
    assert [await answer for answer in answers] == [None, None, True, None]
    stored = present(await store.load("job"))
    assert stored.entry.uid == "next"
    assert await store.definition("uid-job", 1) is None
    assert await store.definition("next", 1) == b"{2}"


async def test_alarms_come_earliest_first_up_to_the_moment(store: OpenStore) -> None:
    """Due times of both lines are read in order: later than `after`, the last moment included."""
    for number in (3, 1, 2):
        due = Due(wall=number * 10, steady=number * 100)
        await store.commit(commit(f"job-{number}", due=due))
    await store.commit(commit("idle"))
    assert await store.due_wall(20, 10) == [(10, "job-1"), (20, "job-2")]
    assert await store.due_wall(30, 10, 10) == [(20, "job-2"), (30, "job-3")]
    assert await store.due_steady(1000, 2) == [(100, "job-1"), (200, "job-2")]
    await store.commit(commit("job-1", expected=1, due=Due(wall=15)))
    assert await store.due_wall(15, 10) == [(15, "job-1")]
    assert await store.due_steady(150, 10) == []
    gone: dict[str, Any] = {"state": JobState.DESTROYED, "document": None, "due": Due(wall=1, steady=1)}
    await store.commit(commit("job-1", expected=2, **gone))
    assert (await store.due_wall(15, 10), await store.due_steady(150, 10)) == ([], [])


async def test_open_jobs_are_those_with_live_executions(store: OpenStore) -> None:
    """Recovery finds each job with an execution that runs or waits for a retry, page by page."""
    for number in range(4):
        await store.commit(commit(f"job-{number}", live=number % 2, waiting=1))

    async def find(after: str, limit: int) -> list[tuple[str, bool]]:
        found = await store.open_jobs(after, limit, ())
        assert all(one.size > 0 for one in found)
        return [(one.job_id, one.is_marked) for one in found]

    assert await find("", 1) == [("job-1", False)]
    assert await find("job-1", 10) == [("job-3", False)]
    await store.commit(commit("job-1", expected=1, live=0))
    assert await find("", 10) == [("job-3", False)]


async def test_open_jobs_are_marked_by_bytes_of_their_documents(store: OpenStore) -> None:
    """Any of the marks anywhere in a document counts, and none in what else is stored of the job."""
    documents = (b"calling\x00\xff", b"\x00\xff waits", b"waits\x00", b"calling\x00 and checking")
    for number, document in enumerate(documents):
        await store.commit(commit(f"job-{number}", live=1, document=document, job_name="checking"))
    found = await store.open_jobs("", 10, (b"calling\x00", b"checking", b"\xff w"))
    assert [(one.job_id, one.is_marked) for one in found] == [
        ("job-0", True),
        ("job-1", True),
        ("job-2", False),
        ("job-3", True),
    ]


async def test_large_rows_come_a_few_at_a_time(store: OpenStore) -> None:
    """A page ends early where it is large, and a page of them is no text that a store refuses."""
    half = OutboundRequest("POST", "http://t/x", (), b"x" * (2 * MIB - 1_000))
    whole = OutboundRequest("POST", "http://t/x", (), b"x" * (8 * MIB))
    requests = [half, half, half, whole, half]
    told = tuple(replace(delivery(number), request=request) for number, request in enumerate(requests))
    records = (Noted(1, 1, "note", "x" * 4 * MIB),)
    await store.commit(commit("job", deliveries=told, batch=batch(1, records=records)))
    await store.commit(commit("job", expected=1, batch=batch(2, records=records)))
    pages, after = [], ""
    while page := await store.deliveries(after, 10):
        pages.append([one.ordinal for one in page])
        after = page[-1].delivery_id
    assert pages == [[0, 1], [2], [3], [4]]
    assert [one.sequence for one in await store.unwritten(("", 0), 10)] == [1]
    assert [one.sequence for one in await store.unwritten(("u", 1), 10)] == [2]


async def test_deliveries_are_kept_until_they_are_done(store: OpenStore) -> None:
    """A delivery is written with its turn, changed by settlements and deleted by the last one."""
    await store.commit(commit(deliveries=(delivery(1), delivery(2), delivery(3))))
    assert await store.deliveries("", 2) == [delivery(1), delivery(2)]
    changed = delivery(2, tries=3, due=9, state=DeliveryState.OUTBOX)
    await store.settle([Settlement(delivery(1), done=True), Settlement(changed, done=False)])
    assert await store.deliveries("", 10) == [changed, delivery(3)]
    assert await store.deliveries("d2", 10) == [delivery(3)]
    assert [await store.deliveries(after, 1) for after in ("", "d2", "d3")] == [[changed], [delivery(3)], []]


async def test_a_delivery_that_is_settled_with_its_turn_is_gone(store: OpenStore) -> None:
    """Handed in together, the turn that makes a delivery and its settlement leave nothing."""
    first = store.commit(commit(deliveries=(delivery(1),)))
    await store.settle([Settlement(delivery(1), done=True)])
    await first
    assert await store.deliveries("", 10) == []


async def test_a_settlement_brings_its_record(store: OpenStore) -> None:
    """What became of a delivery waits for the history as the records of turns do."""
    line = batch(-1, records=RECORDS)
    await store.commit(commit(deliveries=(delivery(1),)))
    await store.settle([Settlement(delivery(1), done=True, batch=line)])
    assert await store.unwritten(("", 0), 10) == [line]
    await store.written([("u", -1)])
    assert await store.unwritten(("", 0), 10) == []


async def test_records_wait_until_the_history_has_them(store: OpenStore) -> None:
    """A turn's records are part of the state until they are confirmed."""
    await store.commit(commit(batch=batch(1, records=RECORDS)))
    await store.commit(commit(expected=1, batch=batch(2)))
    await store.commit(commit("other", batch=batch(1, uid="v")))
    assert await store.unwritten(("", 0), 2) == [batch(1, records=RECORDS), batch(2)]
    assert await store.unwritten(("u", 1), 10) == [batch(2), batch(1, uid="v")]
    await store.written([("u", 1), ("v", 1), ("never", 1)])
    assert await store.unwritten(("", 0), 10) == [batch(2)]
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=1, batch=batch(3)))
    assert await store.unwritten(("", 0), 10) == [batch(2)]


def test_every_kind_of_record_is_tried_above() -> None:
    """A new kind of record has to be known to the store's codec."""
    assert {type(record) for record in RECORDS} == set(Record.__subclasses__())


async def test_an_answer_is_recalled_for_a_day(store: OpenStore) -> None:
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


async def test_the_first_of_a_key_stays(store: OpenStore) -> None:
    """Until it is older than is asked for; of several at one moment one is kept (SPEC section 10)."""
    some = [Remembered("operations/a", "key", b"", b"%d" % n, created_at=1_000) for n in range(5)]
    kept = await asyncio.gather(*(store.remember_first(one, 500) for one in some))
    assert kept.count(True) == 1
    assert await store.recall("operations/a", "key", 0) == some[kept.index(True)]
    later = Remembered("operations/a", "key", b"", b"later", created_at=2_000)
    assert not await store.remember_first(later, 1_000)
    assert await store.remember_first(later, 1_001)
    assert await store.recall("operations/a", "key", 0) == later
    assert await store.remember_first(Remembered("operations/a", "other", b"", b"", created_at=1), 0)
    # Both are written in the order in which they were put in, also in one group
    some = [Remembered("operations/a", "key", b"", b"%d" % n, created_at=1_000) for n in range(2)]
    kept = await asyncio.gather(store.remember(some[0]), store.remember_first(some[1], 0))
    assert kept == [None, False]
    assert await store.recall("operations/a", "key", 0) == some[0]


async def test_a_life_takes_its_answers_along(store: OpenStore) -> None:
    """What was answered in a life that has ended fits no later one (SPEC section 1, uid)."""
    of_job = Remembered("jobs/job/trigger", "key", b"", b"{}", created_at=1_000, job_id="job")
    of_other = Remembered("jobs/b/trigger", "key", b"", b"{}", created_at=1_000, job_id="b")
    await store.commit(commit(remembered=of_job))
    await store.remember(of_other)
    await store.commit(commit(expected=1, document=None, state=JobState.DESTROYED))
    assert await store.recall("jobs/job/trigger", "key", 0) is None
    assert await store.recall("jobs/b/trigger", "key", 0) == of_other


async def test_a_closed_store_says_so(store: OpenStore) -> None:
    """What was handed in is answered; then every call raises StoreUnavailable. A second close is none."""
    answer = store.commit(commit())
    await store.close()
    await answer
    await store.close()
    for asked in (store.commit(commit()), store.load("job")):
        with pytest.raises(StoreUnavailable, match="is stopping and its store is closed") as told:
            await asked
        assert told.value.is_public
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.catalogue.get("job")
    # It says so, as for one write
    with pytest.raises(StoreUnavailable):
        await store.commit_all([commit("a")])


async def test_who_asks_need_not_be_a_task(store: OpenStore) -> None:
    """Turns run without one: every call can be awaited from a bare coroutine."""
    asked: list[object] = []

    async def ask() -> None:
        await store.commit(commit(definition=b"{}"))
        await store.remember(Remembered("s", "k", b"", b"{}", created_at=1))
        asked.append(await store.load("job"))
        asked.append(await store.definition("uid-job", 1))
        asked.append(await store.recall("s", "k", 0))
        asked.append(await store.catalogue.get("job"))
        asked.append(await store.due_wall(10, 10))

    errands = LightTasks()
    errands.start(ask())
    await errands.wait_for_all()
    assert len(asked) == 5
    assert asked[1] == b"{}"


@pytest.mark.parametrize("bad", [{"job_name": None}, {"missed": 2**70}, {"job_name": object()}])
async def test_a_value_that_cannot_be_stored_fails_alone(store: OpenStore, bad: dict[str, Any]) -> None:
    """A write whose values no database takes is refused; the others of its group are written."""
    names = [f"job-{number}" for number in range(20)]
    turns = [commit(name, **(bad if name == "job-7" else {})) for name in names]
    ends = await commit_together(store, turns)
    assert isinstance(ends.pop(7), Exception)
    assert ends == [None] * 19
    assert len((await store.catalogue.list(JobQuery())).items) == 19


async def test_turns_of_many_jobs_are_one_group(store: OpenStore) -> None:
    """Each has its own verdict, in order; what conflicts fails alone. An empty group is answered."""
    await store.commit(commit("taken"))
    verdicts = await store.commit_all([commit("a"), commit("taken"), commit("b")])
    assert [type(verdict) for verdict in verdicts] == [type(None), StoreConflict, type(None)]
    assert await store.load("a") is not None
    assert await store.load("b") is not None
    assert await store.commit_all([]) == []


async def test_over_nothing_means_not_even_a_destroyed_job(store: OpenStore) -> None:
    """A first life may be written unread; the counters of one before it are not lost (SPEC section 2)."""
    await store.commit(commit(expected=NOTHING, sequence=1))
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=NOTHING, sequence=2))
    await store.commit(commit(expected=1, sequence=2, document=None, state=JobState.DESTROYED))
    with pytest.raises(StoreConflict):
        await store.commit(commit(expected=NOTHING, sequence=3))


@pytest.mark.parametrize(
    "place",
    [
        "sqlite file",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("sql, postgresql", "sql, mariadb")),
    ],
)
def test_a_kill_at_each_point_leaves_whole_groups_of_records(
    request: pytest.FixtureRequest, tmp_path: Path, place: str
) -> None:
    """Killed in a start that divides what it finds, in a group of turns, in a deletion, one life after the
    other: a group is there with its turns or not at all, each record once, until the history has it."""
    servers = {"sql, postgresql": "postgres_cluster_url", "sql, mariadb": "mariadb_cluster_url"}
    where = request.getfixturevalue(servers[place]) if place in servers else tmp_path
    possible: Outcomes = {0: (set(), set())}
    kills, is_closed = 0, False
    passages = itertools.count()
    while not is_closed or kills == 0:
        child = fork("groups", where, next(passages))
        lines = child.lines()
        is_closed = child.wait(PATIENCE) == 0
        kills += not is_closed
        if lines:
            possible = check_groups(lines, possible, is_closed=is_closed)
    check_groups(fork("groups", where, 0).lines(), possible, is_closed=True)
    assert kills >= 10


def check_groups(lines: list[str], possible: Outcomes, *, is_closed: bool) -> Outcomes:
    """Asserts that what a life has found is `possible`; what the next one may find after it."""
    found = json.loads(lines[0])
    untold = [(uid, sequence) for uid, sequence in found["untold"]]
    (number,) = set(found["sequences"])
    least, most = possible[number]
    assert least <= set(untold) <= most, (untold, possible)
    assert len(untold) == len(set(untold)), untold
    there = [set(untold)]
    for after in (1, 2):
        there.append(there[-1] | {(job_id, number + after) for job_id in GROUPED})
    turns = len(lines) - 1
    if turns < 2:
        return {number + one: (there[one], there[one]) for one in (turns, turns + 1)}
    last = there[2] - there[1]
    return {number + 2: (last - {(GROUPED[0], number + 2)}, last if is_closed else there[2])}
