"""Every order of writes in a turn answers a crash: turned round, one of these fails."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.effects import Inform, Retire
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.records import Audited, Record, StepEnded
from scheduler_service.domain.replies import Refusal, RefusalCode, Started, Taken
from scheduler_service.domain.turn_events import AlarmRang, Destroyed, Event, Paused, Triggered, Updated
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.revisions import IDENTITIES_AT_ONCE, KEY_BYTES, IdentitySource
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Remembered
from scheduler_service.security.history_masking import Masking
from tests.unit.hosts.house import CORE, SKEW, START, describe
from tests.unit.hosts.memory_store import Fate, head_of
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio
MINUTE = 60_000
HOURLY = {"dueTime": "1h", "period": "1h"}
OFTEN = {"dueTime": "1m", "period": "1m"}


async def test_the_alarm_is_raised_before_the_commit_and_set_exactly_after_it(bench: Bench) -> None:
    """An alarm too many only makes us look again, one too few loses a firing."""
    await bench.create(timer=OFTEN)
    due = Due(START + MINUTE, None)
    assert bench.journal == [
        ("expect", due), ("commit", "job"), ("written", "job"), ("arm", due),
    ]  # fmt: skip


async def test_an_alarm_raised_for_a_commit_that_failed_is_left_to_ring(bench: Bench) -> None:
    """Nothing is lowered when a commit fails; the job is looked at in a second."""
    bench.store.fates.append(Fate.REFUSED)
    with pytest.raises(StoreUnavailable):
        await bench.create(timer=OFTEN)
    assert bench.names() == ["expect", "commit", "again"]


class WatchedCore:
    """Notes of each decision whether it was a short turn, and whether the loop waited for it."""

    def __init__(self) -> None:
        self.loop_thread = threading.get_ident()
        self.seen: list[bool] = []
        self.core = msgspec.structs.replace(CORE, decide=self._decide)

    def _decide(self, job: Job, event: Event, now: Now) -> Decision:
        decision = decide(job, event, now)
        self.seen.append(threading.get_ident() == self.loop_thread)
        return decision


ITEM = {"type": "integer", "minimum": 0, "maximum": 9, "multipleOf": 1}
ON_THE_LOOP, APART = True, False
URL = "http://target.test/run"


async def test_large_answers_are_decided_beside_the_loop() -> None:
    """So is every turn of an execution that keeps one; the next step gets it like any other (decision 28)."""
    watched = WatchedCore()
    bench = Bench(core=watched.core)
    steps = [
        {"url": URL},
        {"url": URL, "body": "${$.a}|json"},
        {"url": URL, "body": "${responses[0].a}|json"},
    ]
    await bench.create(request=steps)
    await bench.run(Triggered())
    watched.seen.clear()
    text = "x" * LARGE_BYTES
    await bench.answer(body=f'{{"a":"{text}"}}'.encode())
    await bench.answer()
    await bench.answer()
    await bench.run(Triggered())
    assert watched.seen == [APART, APART, APART, ON_THE_LOOP]
    assert [call.request.body for call in bench.calls()[1:3]] == [f'"{text}"'.encode()] * 2


class WatchedMasking(Masking):
    """Notes for each exchange with a large answer whether it was masked on the loop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.loop_thread = threading.get_ident()
        self.seen: list[bool] = []

    def redact_all(self, records: Sequence[Record], **options: Any) -> tuple[Record, ...]:
        if any(isinstance(one, StepEnded) for one in records):
            self.seen.append(threading.get_ident() == self.loop_thread)
        return super().redact_all(records, **options)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("members", [[], ["password"]])
async def test_large_bodies_are_masked_beside_the_loop_where_they_are_read(
    qos: int, members: list[str]
) -> None:
    """They are searched for names of members; without those only the begin that is kept is looked at."""
    masking = WatchedMasking(members=members)
    bench = Bench(masking=masking)
    await bench.create(qos=qos, request=[{"url": URL}, {"url": URL}])
    await bench.run(Triggered())
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    assert masking.seen == [not members]


async def test_a_large_result_is_masked_beside_the_loop() -> None:
    """It is searched for tokens as a whole, since it is not cut."""
    masking = WatchedMasking()
    bench = Bench(masking=masking)
    await bench.create(keepResult=True, request=[{"url": URL}])
    for size in (LARGE_BYTES, 10):
        await bench.run(Triggered())
        await bench.answer(body=b'"%s"' % (b"x" * size))
    assert masking.seen == [False, True]


class GuardedJob(CachedJob):
    """A job that notes in which threads its sequence is changed; its copies do not."""

    def __init__(self, job_id: str) -> None:
        self.changed_by: set[int] = set()
        self._original = id(self)
        super().__init__(job_id)

    @property
    def sequence(self) -> int:
        return self._sequence

    @sequence.setter
    def sequence(self, value: int) -> None:
        if id(self) == self._original:
            self.changed_by.add(threading.get_ident())
        self._sequence = value


@pytest.mark.parametrize("qos", [0, 1])
async def test_only_the_loop_changes_the_job(qos: int, bench: Bench) -> None:
    """A cancelled turn gives its lock back while the thread goes on: the next one takes another sequence."""
    bench.cached = job = GuardedJob("job")
    await bench.create(qos=qos, request=[{"url": URL}, {"url": URL}])
    await bench.run(Triggered())
    before = job.sequence
    await bench.answer(body=b'"%s"' % (b"x" * LARGE_BYTES))
    await bench.answer()
    assert job.sequence == before + 2
    assert job.changed_by == {threading.get_ident()}
    used = [batch.sequence for batch, _ in bench.history.batches]
    assert used == sorted(set(used))


@pytest.mark.parametrize(
    ("members", "small"),
    [
        ({"paramsSchema": {"properties": {"a": {"items": ITEM}}}}, APART),
        ({"request": [{"url": URL, "body": "${$.a[?count($.a[?@ == 1]) > 1]}|json"}]}, ON_THE_LOOP),
    ],
)
async def test_what_may_be_dear_is_decided_beside_the_loop(members: dict[str, Any], small: bool) -> None:
    """A small body can need many checks of paramsSchema, or many visits of a JSONPath."""
    params = b'{"a":[%s]}'
    watched = WatchedCore()
    bench = Bench(core=watched.core)
    await bench.create(**members)
    watched.seen.clear()
    reply = await bench.run(Triggered(params=params % b",".join([b"2"] * 150)))
    assert isinstance(reply, Started)
    assert watched.seen == [APART]
    await bench.answer()
    assert isinstance(await bench.run(Triggered(params=params % b"2")), Started)
    assert watched.seen[-1] == small


async def test_what_the_store_refused_never_happened(bench: Bench) -> None:
    """StoreUnavailable: nothing was written, no effect starts, and the next turn starts from before."""
    await bench.create()
    bench.store.fates.append(Fate.REFUSED)
    with pytest.raises(StoreUnavailable):
        await bench.run(Triggered())
    assert bench.effects == []
    assert bench.history.batches == []
    reply = await bench.run(Triggered())
    assert isinstance(reply, Started)
    assert reply.execute_number == 1


async def test_a_turn_that_vanished_leaves_the_job_as_it_was(bench: Bench) -> None:
    """The store has the old sequence: the state of before is kept, and no number is lost or used twice."""
    await bench.create()
    bench.store.fates.append(Fate.VANISHED)
    with pytest.raises(StoreUncertain):
        await bench.run(Triggered())
    await bench.run(AlarmRang())
    assert bench.effects == []
    reply = await bench.run(Triggered())
    assert isinstance(reply, Started)
    assert reply.execute_number == 1
    sequences = [commit.sequence for commit in bench.disk.commits]
    assert sequences == sorted(set(sequences))
    assert sequences[1] > sequences[0] + 1, "the sequence of the turn in doubt is not used again"


async def test_while_the_store_is_away_a_turn_in_doubt_stays_in_doubt(bench: Bench) -> None:
    """Nobody may take a turn on a state of which nobody knows whether it holds."""
    await bench.create()
    bench.store.fates.append(Fate.SILENT)
    with pytest.raises(StoreUncertain):
        await bench.run(Triggered())
    assert bench.names()[-1] == "again"
    bench.store.is_down = True
    with pytest.raises(StoreUnavailable):
        await bench.run(AlarmRang())
    assert bench.names()[-1] == "again"
    assert bench.effects == []
    bench.store.is_down = False
    for _ in range(2):
        await bench.run(AlarmRang())
        assert (len(bench.calls()), len(bench.history.batches)) == (1, 1)


async def test_a_job_that_cannot_be_loaded_is_looked_at_again(bench: Bench) -> None:
    """Its ring is used up, and nothing else would ring it."""
    await bench.create(timer=OFTEN)
    later = Bench(bench.disk, boot=2)
    later.store.is_down = True
    with pytest.raises(StoreUnavailable):
        await later.run(AlarmRang())
    assert later.names()[-1] == "again"


async def test_what_another_writer_left_is_read_again(bench: Bench) -> None:
    """A conflict with another sequence in the store: the cached state is dropped."""
    await bench.create()
    other = Bench(bench.disk, boot=2)
    await other.run(Triggered())
    with pytest.raises(StoreConflict):
        await bench.run(Triggered())
    assert bench.effects == []
    await bench.run(AlarmRang())
    assert bench.cached.document is not None
    assert bench.cached.document.head.execute_number == 1


async def test_at_qos_0_a_turn_that_changes_nothing_durable_acts_at_once(bench: Bench) -> None:
    """The next step of a chain costs no commit; its records may be lost, its alarm lives in memory."""
    await bench.create(request=[{"url": "http://a.test/1"}, {"url": "http://a.test/2"}])
    await bench.run(Triggered())
    commits = len(bench.disk.commits)
    await bench.answer()
    assert len(bench.disk.commits) == commits
    assert [call.request.url for call in bench.calls()] == ["http://a.test/1", "http://a.test/2"]
    assert [durable for _, durable in bench.history.batches] == [True, False]


async def test_at_qos_1_every_step_is_durable_before_the_next_is_sent(bench: Bench) -> None:
    """The ExecutionContext is saved before each effect (SPEC section 8)."""
    await bench.create(qos=1, request=[{"url": "http://a.test/1"}, {"url": "http://a.test/2"}])
    await bench.run(Triggered())
    commits = len(bench.disk.commits)
    await bench.answer()
    assert len(bench.disk.commits) == commits + 1
    assert bench.names()[-6:] == ["expect", "commit", "written", "history", "act", "arm"]


async def test_an_alarm_that_is_not_on_disk_is_held_in_memory(bench: Bench) -> None:
    """At qos 0 a check that is far away must ring though no commit told the disk of it."""
    check = {"method": "GET", "url": "http://a.test/check"}
    await bench.create(**{"async": True, "checkUrl": check, "checkRateSeconds": 30})
    await bench.run(Triggered())
    await bench.answer()
    assert bench.journal[-1] == ("hold", Due(None, START - SKEW + 30_000))


async def test_a_ring_in_vain_sets_the_alarm_again(bench: Bench) -> None:
    """A ring uses up the alarm, and has no authority: too early, it changes nothing."""
    await bench.create(timer=OFTEN)
    bench.journal.clear()
    await bench.run(AlarmRang())
    assert bench.journal == [("arm", Due(START + MINUTE, None))]
    assert len(bench.disk.commits) == 1


async def test_records_are_masked_before_they_are_written_anywhere(bench: Bench) -> None:
    """Neither the store nor the history ever sees an authorization header (SPEC section 14)."""
    step = {"url": "http://a.test/", "headers": {"Authorization": "Bearer top-secret"}}
    await bench.create(qos=1, request=[step])
    await bench.run(Triggered())
    await bench.answer()
    batches = [*bench.disk.unwritten.values(), *(batch for batch, _ in bench.history.batches)]
    steps = [record for batch in batches for record in batch.records if isinstance(record, StepEnded)]
    assert len(steps) == 2
    assert "top-secret" not in repr(steps)


async def test_a_refusal_is_not_kept_under_its_key(bench: Bench) -> None:
    """Nothing was done: the same request may succeed later."""
    remembered = Remembered("/jobs/job/trigger", "key", b"digest", b"", START)
    refused = await bench.run(Triggered(), remembered=remembered)
    assert isinstance(refused, Refusal)
    await bench.create()
    assert isinstance(await bench.run(Triggered(), remembered=remembered), Started)


async def test_destroying_is_one_commit_and_sends_only_after_it(bench: Bench) -> None:
    """Catalogue, alarm and state go together; a failed destruction leaves the job with its alarm."""
    await bench.create(timer=HOURLY, cancelUrl={"url": "http://a.test/cancel"})
    await bench.run(Triggered())
    bench.store.fates.append(Fate.REFUSED)
    bench.effects.clear()
    with pytest.raises(StoreUnavailable):
        await bench.run(Destroyed())
    assert bench.effects == []
    assert bench.disk.jobs["job"].due.wall is not None
    bench.journal.clear()
    assert await bench.run(Destroyed()) == Taken()
    stored = bench.disk.jobs["job"]
    assert (stored.document, stored.due, stored.entry.state) == (None, Due(), JobState.DESTROYED)
    assert (stored.entry.execute_number, stored.entry.request_counts) == (1, 1)
    assert bench.names() == ["expect", "commit", "written", "history", "act", "arm"]
    assert any(isinstance(effect, Inform) for effect in bench.effects)
    assert any(isinstance(effect, Retire) for effect in bench.effects)


async def test_an_unknown_destruction_is_completed_when_the_store_has_it(bench: Bench) -> None:
    """Silent destruction: the job is gone, and what had to be sent is sent."""
    await bench.create(cancelUrl={"url": "http://a.test/cancel"})
    await bench.run(Triggered())
    bench.effects.clear()
    bench.store.fates.append(Fate.SILENT)
    with pytest.raises(StoreUncertain):
        await bench.run(Destroyed())
    reply = await bench.run(AlarmRang())
    assert isinstance(reply, Refusal)
    assert any(isinstance(effect, Inform) for effect in bench.effects)


async def test_what_a_turn_makes_of_a_job_is_shown_once_it_is_durable(bench: Bench) -> None:
    """With the entry before it; a turn that the store refused is shown to nobody."""
    await bench.create(timer=OFTEN)
    bench.store.fates.append(Fate.REFUSED)
    with pytest.raises(StoreUnavailable):
        await bench.run(Paused())
    await bench.run(Paused())
    await bench.run(Destroyed())
    assert bench.states == [
        (None, JobState.ACTIVE),
        (JobState.ACTIVE, JobState.PAUSED),
        (JobState.PAUSED, JobState.DESTROYED),
    ]


async def test_no_effect_and_no_record_leaves_before_the_commit(bench: Bench) -> None:
    """An effect before its commit would be a lie."""
    await bench.create()
    bench.store.hold()
    turn = asyncio.create_task(bench.run(Triggered()))
    for _ in range(10):
        await asyncio.sleep(0)
    assert bench.effects == []
    assert bench.history.batches == []
    bench.store.release()
    assert isinstance(await turn, Started)
    assert len(bench.calls()) == 1
    assert bench.names()[-6:] == ["expect", "commit", "written", "history", "act", "arm"]
    assert [durable for _, durable in bench.history.batches] == [True]


ACT = Act("triggerJob", "Anna", key_id="k1", address="192.0.2.1")


def audited(bench: Bench) -> list[Audited]:
    """The lines of the audit that are durable."""
    batches = bench.disk.unwritten.values()
    return [one for batch in batches for one in batch.records if isinstance(one, Audited)]


@pytest.mark.parametrize("detail", ["all", "none"])
async def test_who_changes_a_job_is_written_with_the_change(detail: str) -> None:
    """In its commit, at qos 0 as well and whatever the history keeps: so neither is without the other."""
    bench = Bench(masking=Masking(detail=detail))
    await bench.create(timer=HOURLY, act=ACT)
    started = await bench.run(Triggered(params=b"{}", planned_at=None), act=ACT)
    assert isinstance(started, Started)
    await bench.run(Paused(drain=True), act=msgspec.structs.replace(ACT, operation="switchJob"))
    assert [(one.act.operation, one.status, one.execute_number, one.revision) for one in audited(bench)] == [
        ("triggerJob", 201, None, 1),
        ("triggerJob", 200, 1, 1),
        ("switchJob", 200, None, 1),
    ]


async def test_what_the_store_refused_is_in_no_audit(bench: Bench) -> None:
    """A commit that failed has changed nothing, and left no line."""
    await bench.create(timer=HOURLY)
    bench.store.fates.append(Fate.REFUSED)
    with pytest.raises(StoreUnavailable):
        await bench.run(Destroyed(), act=ACT)
    assert audited(bench) == []
    await bench.run(Destroyed(), act=ACT)
    assert [one.revision for one in audited(bench)] == [0]


async def test_a_sequence_is_never_used_twice(bench: Bench) -> None:
    """Each start counts above all that an earlier one can have reached, also in memory (ports.Batch)."""
    await bench.create(request=[{"url": "http://a.test/1"}, {"url": "http://a.test/2"}])
    await bench.run(Triggered())
    await bench.answer()
    known = {batch.sequence for batch, _ in bench.history.batches}
    after = Bench(bench.disk, boot=2)
    await after.run(AlarmRang())
    fresh = {batch.sequence for batch, _ in after.history.batches}
    assert fresh
    assert min(fresh) >= 2 << 32 > max(known)


async def test_revisions_are_numbered_by_the_turn_and_kept_only_where_accepted(bench: Bench) -> None:
    """Created 1, then one more for each update that was not refused."""
    await bench.create()
    refused = await bench.run(Updated(0, if_match=frozenset({7})), definition=describe(jobName="other"))
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.PRECONDITION
    assert (
        await bench.run(Updated(0, if_match=frozenset({1})), definition=describe(jobName="other")) == Taken()
    )
    assert sorted(bench.disk.definitions) == [("uid1", 1), ("uid1", 2)]
    assert bench.disk.jobs["job"].entry.job_name == "other"
    assert sorted(bench.cached.programs) == [2]


async def test_the_same_definition_again_is_no_change(bench: Bench) -> None:
    """The fingerprint comes from the definition that the event brings (SPEC section 10)."""
    await bench.create()
    await bench.create()
    assert len(bench.disk.commits) == 1
    refused = await bench.create(jobName="other")
    assert isinstance(refused, Refusal)
    assert len(bench.disk.commits) == 1


async def test_a_later_life_goes_on_counting(bench: Bench) -> None:
    """After a destruction: a new uid, the first revision, counters go on (SPEC section 10)."""
    await bench.create()
    await bench.run(Triggered())
    await bench.run(Destroyed())
    after = Bench(bench.disk, boot=2)
    await after.create()
    head = head_of(bench.disk.jobs["job"])
    assert (head.uid, head.revision, head.execute_number, head.request_counts) == ("uid2", 1, 1, 1)


def test_no_two_lives_are_alike() -> None:
    """Uids are 32 hex digits, keys random, also beyond one helping of chance."""
    new_life = IdentitySource()
    new_identity = [new_life() for _ in range(3 * IDENTITIES_AT_ONCE)]
    assert len({uid for uid, _ in new_identity}) == len({key for _, key in new_identity}) == len(new_identity)
    assert all(len(uid) == 32 and int(uid, 16) >= 0 and len(key) == KEY_BYTES for uid, key in new_identity)
    # As that of a machine without a battery does
    new_life = IdentitySource(now=lambda: 0)
    assert new_life()[0].startswith("0" * 12)
    assert len(new_life()[0]) == 32
    # Lives that begin one after the other are in order: their rows lie together
    moments = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 10_000_000))
    new_life = IdentitySource(now=lambda: next(moments))
    uids = [new_life()[0] for _ in range(100)]
    assert uids == sorted(uids)
    assert int(uids[0][:12], 16) == 1_700_000_000_000
