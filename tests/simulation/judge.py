"""The promises, held against what was seen of a world: at the targets, by the callers, and in the history.

I1  each planned firing stands in the ledger, and once; one of a fixed delay follows all ends (SPEC section 3)
I2  nothing of qos 1 is lost, and what runs comes to its end (section 8)
I3  nothing is early: no firing, no delayed trigger, no retry (sections 3 and 6)
I4  no step with a recorded answer is sent again, none of qos 0 twice (section 8)
I5  what is sent again under its key is equal byte by byte (section 4)
I6  each notification with a guarantee is delivered (section 7)
I7  no number is used twice: of executions, attempts and turns (section 8)
I8  what was answered to a caller is so (section 8)
I9  the world comes to rest, and nothing in it breaks
I10 nothing is late while nothing goes wrong: no firing, no retry, no call after a start (section 8)
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from scheduler_service.domain.document import Calling
from scheduler_service.domain.execution import ExecutionState, FailureType, FiringOutcome, TriggeredBy
from scheduler_service.domain.records import (
    AttemptEnded,
    ExecutionRecord,
    FiringRecord,
    StepEnded,
)
from scheduler_service.domain.replies import Started, Taken, Unchanged
from scheduler_service.engine.document_bytes import decode
from scheduler_service.ports.history import Batch
from tests.simulation.alone import Life
from tests.simulation.callers import Asked
from tests.simulation.disk import Written
from tests.simulation.jobs import BEGIN, JobPlan
from tests.simulation.target import HOOK, Seen
from tests.simulation.world import World

TERMINAL = (
    ExecutionState.SUCCEEDED,
    ExecutionState.TERMINATED,
    ExecutionState.CANCELLED,
    ExecutionState.SKIPPED,
)
CHANGES = ("pause", "activate", "update", "destroy")
LATEST_SECONDS = 1.5
RECOVERED_SECONDS = 5
PATIENCE_SECONDS = 6
"""So soon after a trouble an answer reaches its job."""
OUT_SECONDS = 0.006
LONGEST_HALT_SECONDS = 90.0
"""What was decided may be sent so long after; a clock that was set back meanwhile makes it look early."""

Found = Iterator["Finding"]


class Finding(msgspec.Struct, frozen=True):
    """A promise that was not kept."""

    promise: str
    text: str


class Evidence:
    """What was seen of one job."""

    def __init__(self, world: World, plan: JobPlan) -> None:
        self.world = world
        self.plan = plan
        self.records = world.disk.archive.records(plan.job_id)
        self.seen = [one for one in world.targets.seen if one.job_id == plan.job_id]
        self.asked = [one for one in world.callers.asked if one.job_id == plan.job_id]
        self.written = [one for one in world.disk.written if one.commit.entry.job_id == plan.job_id]
        self.executions: dict[int, list[tuple[Batch, ExecutionRecord]]] = defaultdict(list)
        self.ended: dict[int, AttemptEnded] = {}
        for batch, record in self.records:
            if isinstance(record, ExecutionRecord):
                self.executions[record.execute_number].append((batch, record))
            elif isinstance(record, AttemptEnded):
                self.ended[record.request_counts] = record
        self.attempts: dict[int, dict[int, Seen]] = defaultdict(dict)
        for seen in self.seen:
            if seen.is_step:
                self.attempts[seen.execution].setdefault(seen.attempt, seen)

    def last(self, number: int) -> ExecutionRecord:
        """What the history says of an execution."""
        return self.executions[number][-1][1]

    def asked_for(self, *what: str) -> list[Asked]:
        """What callers have asked for, in this order."""
        return [one for one in self.asked if one.ask.what in what]


def judge(world: World) -> list[Finding]:
    """All promises that were not kept."""
    findings = [Finding("I9", text) for text in world.broken]
    if world.rest:
        findings.append(Finding("I9", f"no rest at {world.now() / 1_000:.0f} s: {world.rest[:300]}"))
    for known, again in world.disk.archive.torn:
        findings.append(Finding("I7", f"{known.job_id}: turn {known.sequence} twice: {known} {again}"))
    for plan in world.plan.jobs:
        evidence = Evidence(world, plan)
        for promise in PROMISES:
            findings += promise(evidence)
    return findings


def _ledger(evidence: Evidence) -> Found:
    lives: dict[str, list[FiringRecord]] = defaultdict(list)
    for batch, record in evidence.records:
        if isinstance(record, FiringRecord):
            lives[batch.uid].append(record)
    first: dict[str, Written] = {}
    for written in evidence.written:
        first.setdefault(written.commit.entry.uid, written)
    for uid, written in first.items():
        yield from _ledger_of_life(evidence, written, lives[uid])


def _ledger_of_life(evidence: Evidence, first: Written, firings: list[FiringRecord]) -> Found:
    job_id = evidence.plan.job_id
    entries: dict[int, FiringRecord] = {}
    if any(by < 0 for _, by in evidence.world.steps) and evidence.asked_for("update"):
        return  # a definition that is scheduled anew by a clock that was set back has the same moments again
    for one in firings:
        known = entries.get(one.planned_at)
        is_same = known is not None and known.execute_number == one.execute_number is not None
        # A killed process had not begun it (decision 77): the history keeps the later record.
        has_turned_late = is_same and one.outcome is FiringOutcome.LATE
        if known is not None and known.count is not None and not has_turned_late:
            yield Finding("I1", f"{job_id}: twice in the ledger: {known} {one}")
        entries[one.planned_at] = one
    covered: Counter[int] = Counter()
    period = evidence.plan.period
    for one in entries.values():
        first_moment = _before_jitter(evidence.plan, one.planned_at)
        if one.until is None or one.until == one.planned_at or not period:
            covered[first_moment] += 1
            continue
        until = _before_jitter(evidence.plan, one.until)
        covered.update(range(first_moment, until + 1, period))
        if one.count != (until - first_moment) // period + 1:
            yield Finding("I1", f"{job_id}: miscounted: {one}")
    for moment, times in covered.items():
        if times > 1:
            yield Finding("I1", f"{job_id}: {moment - BEGIN} stands {times} times in the ledger")
    planned = _planned(evidence, first)
    missing = sorted(planned - covered.keys())
    if missing:
        yield Finding("I1", f"{job_id}: missing in the ledger: {[one - BEGIN for one in missing]}")
    started = {one.execute_number for one in entries.values() if one.execute_number is not None}
    repeats = _repeats(evidence)
    if repeats is not None and len(started) > repeats and not evidence.asked_for("update"):
        yield Finding("I1", f"{job_id}: {len(started)} firings of {repeats}")
    for number in sorted(started - evidence.executions.keys()):
        yield Finding("I1", f"{job_id}: firing of execution {number}, which is not there")
    for number, found in evidence.executions.items():
        batch, record = found[-1]
        is_of_life = batch.uid == first.commit.entry.uid and record.triggered_by is TriggeredBy.TIMER
        if is_of_life and record.state in TERMINAL and number not in started:
            yield Finding("I1", f"{job_id}: execution {number} stands in no ledger: {record}")


def _planned(evidence: Evidence, first: Written) -> set[int]:
    """The moments that were certainly planned: until somebody changes the job."""
    plan, created = evidence.plan, first.commit.entry.created_at
    timer = plan.definition.get("timer")
    # Who is killed as soon as it has written the creation has not noted it: then `first` is what came next.
    since = min(first.at * 1_000, created - BEGIN)
    changes = [one for one in evidence.asked_for(*CHANGES) if one.asked_at + 1 >= since]
    later = [one.wall for one in changes]
    if later and evidence.world.steps:
        return set()
    until = min([BEGIN + evidence.world.plan.horizon, *(one - plan.jitter for one in later)])
    if timer is None:
        return {created} if not later else set()
    if not plan.period:
        return set()
    if timer["period"].startswith("*/"):
        begin = created // plan.period * plan.period + plan.period
    else:
        begin = created + _due_time(plan)
    count = _repeats(evidence)
    if count is not None:
        # What was planned while the clock was set ahead is not due any more once it is right again.
        until = until if later or evidence.world.steps else 1 << 60
    moments = range(begin, until + (not later), plan.period)[:count]
    if not changes or changes[0].ask.what != "pause":
        return set(moments)
    # What was due and held up stands there after an activation.
    asked_at = changes[0].asked_at / 1_000
    return {one for one in moments if evidence.world.is_calm((one - BEGIN) / 1_000, asked_at, plan.job_id)}


def _before_jitter(plan: JobPlan, planned: int) -> int:
    """The moment of the grid that jitter has moved to `planned`."""
    return planned // plan.period * plan.period if plan.jitter else planned


def _repeats(evidence: Evidence) -> int | None:
    """How often the timer of a job fires in all; None: without end."""
    period = (evidence.plan.definition.get("timer") or {}).get("period", "")
    return int(period[1:].partition("/")[0]) if period.startswith("R") else None


def _due_time(plan: JobPlan) -> int:
    """Of a job with a period, in ms."""
    return int(plan.definition["timer"]["dueTime"].removesuffix("s")) * 1_000


def _delays(evidence: Evidence) -> Found:
    """Each firing of a fixed delay, by the ends of the executions before it; none before `dueTime`."""
    plan, world = evidence.plan, evidence.world
    if not plan.delay or world.steps or evidence.asked_for(*CHANGES):
        return
    skipped = [one.planned_at for _, one in evidence.records if _is_skipped(one)]
    ran = [one for number in sorted(evidence.executions) if (one := evidence.last(number)).started_at]
    ran.sort(key=lambda one: one.started_at or 0)
    opens = evidence.written[0].commit.entry.created_at + _due_time(plan) if ran else 0
    for place, one in enumerate(ran):
        before = [other.ended_at or 1 << 62 for other in ran[:place]]
        if one.triggered_by is TriggeredBy.TIMER and before:
            due = max(opens, max(before) + plan.delay)
            if one.planned_at < due or (one.planned_at > due and not skipped):
                by = one.planned_at - due
                yield Finding("I1", f"{plan.job_id}: execution {one.execute_number} is {by} ms off its delay")


def _is_skipped(record: object) -> bool:
    return isinstance(record, FiringRecord) and record.outcome is FiringOutcome.SKIPPED


def _ends(evidence: Evidence) -> Found:
    job_id, world = evidence.plan.job_id, evidence.world
    may_be_lost = evidence.plan.qos == 0 and world.may_lose(job_id)
    for number in evidence.executions:
        last = evidence.last(number)
        if last.state not in TERMINAL:
            yield Finding("I2", f"{job_id}: execution {number} does not end: {last}")
        elif last.error == "lost" and not may_be_lost and job_id not in world.forgotten:
            yield Finding("I2", f"{job_id}: execution {number} is lost")
        elif last.state is ExecutionState.SUCCEEDED:
            done = {
                one.path
                for one in evidence.seen
                if one.execution == number and one.is_step and 200 <= one.status < 300
            }
            if len(done) < len(evidence.plan.definition["request"]):
                yield Finding("I2", f"{job_id}: execution {number} succeeded with {sorted(done)} alone")


def _early(evidence: Evidence) -> Found:
    job_id, steps = evidence.plan.job_id, evidence.world.steps
    for number, attempts in evidence.attempts.items():
        first = min(attempts.values(), key=lambda one: one.order)
        if number not in evidence.executions:
            yield Finding("I2", f"{job_id}: execution {number} is sent, and not in the history")
            continue
        early = evidence.last(number).planned_at - first.now.wall
        is_set_back = any(by < 0 and 0 <= first.at - at / 1_000 <= LONGEST_HALT_SECONDS for at, by in steps)
        if early > 0 and not is_set_back:
            yield Finding("I3", f"{job_id}: execution {number}, {early} ms early")


def _retries(evidence: Evidence) -> Found:
    """Their waits, as the definition has them."""
    job_id, world = evidence.plan.job_id, evidence.world
    policy = evidence.plan.definition.get("retry", [{}])[0]
    if world.steps or policy.get("jitter") != "none":
        return
    for number, attempts in evidence.attempts.items():
        # A try whose connection was refused counts too, though the target has not seen it.
        tried = {count for count, end in evidence.ended.items() if end.execute_number == number}
        for place, (before, after) in enumerate(pairwise(sorted(tried | attempts.keys()))):
            end = evidence.ended.get(before)
            if end is None or end.retry_in is None or after not in attempts:
                continue
            due = (end.at - BEGIN) / 1_000 + policy["intervalSeconds"] * 2**place
            late = attempts[after].at - due
            if late < -0.002:
                yield Finding("I3", f"{job_id}: attempt {after} of {number}, {-late:.3f} s early")
            elif late > LATEST_SECONDS and world.is_calm(
                (end.at - BEGIN) / 1_000, due + LATEST_SECONDS, job_id
            ):
                yield Finding("I10", f"{job_id}: attempt {after} of {number}, {late:.3f} s late")


def _late(evidence: Evidence) -> Found:
    plan, world = evidence.plan, evidence.world
    policy = plan.definition["overlapPolicy"]
    if plan.definition.get("timer") is None and evidence.asked_for("update"):
        policy = "queue"  # the execution that an update starts waits for what runs
    # What a pause has missed is late where it is caught up.
    catches_up = any(one.option in ("fire_once", "fire_all") for one in plan.asks)
    in_order = "fire_all" in str(plan.definition.get("timer"))
    is_direct = policy in ("skip", "allow") and not (catches_up or in_order)
    for _, record in evidence.records:
        if isinstance(record, FiringRecord) and record.outcome is FiringOutcome.LATE and is_direct:
            planned = (record.planned_at - BEGIN) / 1_000
            if not world.steps and world.is_calm(planned - 1, planned + LATEST_SECONDS, plan.job_id):
                yield Finding("I10", f"{plan.job_id}: late: {record}")
    yield from _checks(evidence)
    if policy == "cancel_running" or plan.qos == 0:
        return
    for life in filter(lambda one: one.owns(plan.job_id), world.lives):
        if life.up_at is not None and world.is_calm(life.up_at, life.up_at + RECOVERED_SECONDS, plan.job_id):
            yield from _resumed(evidence, life)


def _checks(evidence: Evidence) -> Found:
    """The first check of an attempt, after its chain."""
    plan, world = evidence.plan, evidence.world
    if "checkUrl" not in plan.definition:
        return
    last = f"step{len(plan.definition['request']) - 1}"
    checked = {one.attempt for one in evidence.seen if one.path == "check"}
    ended = {attempt: (end.at - BEGIN) / 1_000 for attempt, end in evidence.ended.items()}
    for seen in evidence.seen:
        if seen.path != last or seen.heard_at is None or not 200 <= seen.status < 300 or world.steps:
            continue
        until = seen.heard_at + plan.definition["checkRateSeconds"] + LATEST_SECONDS
        is_over = ended.get(seen.attempt, until) < until
        if seen.attempt not in checked and not is_over and world.is_calm(seen.at, until, plan.job_id):
            yield Finding("I10", f"{plan.job_id}: no check of attempt {seen.attempt} by {until:.3f}")


def _resumed(evidence: Evidence, life: Life) -> Found:
    """What was in flight when the process before this one died."""
    name, up_at, job_id = life.process.name, life.up_at or 0, evidence.plan.job_id
    before = [one for one in evidence.written if one.at <= up_at and one.life != name]
    changes = [one for one in evidence.asked_for(*CHANGES, "cancel") if one.asked_at / 1_000 >= up_at - 1]
    if not before or not before[-1].commit.document or changes:
        return
    document = decode(before[-1].commit.document)
    sent = {
        (one.execution, one.attempt, one.path)
        for one in evidence.seen
        if one.life == name and one.at <= up_at + RECOVERED_SECONDS
    }
    for run in document.head.opens:
        context = document.contexts.get(run.execute_number)
        if context is not None and isinstance(context.phase, Calling):
            place = (run.execute_number, run.request_counts, f"step{context.phase.step}")
            if place not in sent:
                yield Finding(
                    "I10", f"{job_id}: {place} is not sent again {RECOVERED_SECONDS} s after a start"
                )


def _sent_again(evidence: Evidence) -> Found:
    job_id = evidence.plan.job_id
    durable: dict[tuple[int, int, str], Written] = {}
    for written in evidence.written:
        for record in () if written.commit.batch is None else written.commit.batch.records:
            if isinstance(record, StepEnded):
                place = (record.execute_number, record.request_counts, f"step{record.index}")
                durable.setdefault(place, written)
    sent: dict[tuple[int, int, str], list[Seen]] = defaultdict(list)
    for seen in evidence.seen:
        if seen.is_step:
            sent[seen.execution, seen.attempt, seen.path].append(seen)
    for place, found in sent.items():
        known = durable.get(place)
        # The answer that another node had may come while the call is on its way out again.
        if known is not None and found[-1].order > known.order and found[-1].at > known.at + OUT_SECONDS:
            yield Finding("I4", f"{job_id}: {place} is sent at {found[-1].at:.3f}, with its answer recorded")
        later = [one for one in sent if one[:2] == place[:2] and one[2] > place[2]]
        after = [sent[one][0] for one in later if sent[one][0].order < found[-1].order]
        if any(found[-1].at > one.at + OUT_SECONDS for one in after):
            yield Finding("I4", f"{job_id}: {place} is sent again after {later}")
        lives = [one.life for one in found]
        if len(set(lives)) < len(lives):
            yield Finding("I4", f"{job_id}: {place} is sent twice by one process: {lives}")
        if len(found) > 1 and (evidence.plan.qos == 0 or not evidence.world.may_lose(job_id)):
            yield Finding("I4", f"{job_id}: {place} is sent {len(found)} times at qos {evidence.plan.qos}")


def _bytes(evidence: Evidence) -> Found:
    job_id = evidence.plan.job_id
    said: dict[tuple[str, int], object] = {}
    owners: dict[str, tuple[int, str]] = {}
    for seen in evidence.seen:
        request = seen.request
        headers = tuple(one for one in request.headers if one[0] != "traceparent")
        text = (request.method, request.url, headers, request.body)
        if said.setdefault((seen.key, seen.attempt), text) != text:
            yield Finding("I5", f"{job_id}: {seen.key} of {seen.path} changes its words: {text}")
        owner = (seen.execution, seen.path)
        if owners.setdefault(seen.key, owner) != owner:
            yield Finding("I5", f"{job_id}: {seen.key} is that of {owners[seen.key]} and {owner}")


def _told(evidence: Evidence) -> Found:
    plan = evidence.plan
    entries = plan.definition["notification"]
    if not entries or not (plan.qos == 1 or "guarantee" in entries[0]):
        return
    told: set[tuple[int, int, str]] = set()
    for seen in evidence.seen:
        if seen.path == HOOK and seen.status == 200:
            body = json.loads(seen.request.body or b"{}")
            told.add((body["executeNumber"], body["requestCounts"] or 0, body["response"]["status"]))
    finals = {(number, status) for number, _, status in told}
    for number in evidence.executions:
        last = evidence.last(number)
        if last.state in (ExecutionState.SKIPPED, *set(ExecutionState) - set(TERMINAL)):
            continue
        expected = "finalSucceed" if last.state is ExecutionState.SUCCEEDED else "finalFailed"
        if (number, expected) not in finals and last.reason != "destroyed":
            yield Finding("I6", f"{plan.job_id}: {expected} of execution {number} is not told: {last}")
    if plan.is_asynchronous or "stateEquals" in entries[0]:
        return
    for _, record in evidence.records:
        if isinstance(record, AttemptEnded) and record.error not in ("cancelled", "lost", "template"):
            status = "succeed" if record.error is None else "failed"
            if (record.execute_number, record.request_counts, status) not in told:
                yield Finding("I6", f"{plan.job_id}: {status} is not told: {record}")


def _numbers(evidence: Evidence) -> Found:
    job_id = evidence.plan.job_id
    for number, found in evidence.executions.items():
        origins = {(b.uid, one.triggered_by, one.planned_at, one.created_at) for b, one in found}
        if len(origins) > 1:
            yield Finding("I7", f"{job_id}: number {number} is used twice: {origins}")
    owners: dict[int, int] = {}
    for seen in evidence.seen:
        if seen.attempt and owners.setdefault(seen.attempt, seen.execution) != seen.execution:
            both = f"{owners[seen.attempt]} and {seen.execution}"
            yield Finding("I7", f"{job_id}: attempt {seen.attempt} of {both}")
    fired: dict[int, str] = {}
    for seen in evidence.seen:
        if seen.path == "step0":
            moment = json.loads(seen.request.body or b"{}")["fired"]
            if fired.setdefault(seen.execution, moment) != moment:
                yield Finding("I7", f"{job_id}: execution {seen.execution} of two moments")


def _heard(evidence: Evidence) -> Found:
    """An answer that came in time is no timeout, nor is a feedback that was accepted."""
    job_id, world = evidence.plan.job_id, evidence.world
    ends = {life.process.name: life.died_at or world.loop.time() for life in world.lives}
    last_step = len(evidence.plan.definition["request"]) - 1
    chains = {
        record.request_counts: (record.at - BEGIN) / 1_000
        for _, record in evidence.records
        if isinstance(record, StepEnded) and record.index == last_step
    }
    told = {
        one.event.request_counts: (one.answered_at or 0) / 1_000
        for one in evidence.asked
        if one.event and one.reply == Taken()
    }
    for attempt, end in evidence.ended.items():
        if end.failure_type is not FailureType.TIMEOUT or world.steps:
            continue
        ended_at = (end.at - BEGIN) / 1_000
        calm_since = ended_at - PATIENCE_SECONDS
        sent = [one for one in evidence.seen if one.is_step and one.attempt == attempt]
        last = sent[-1] if sent else None
        if last is None or last.heard_at is None or ends[last.life] < ended_at:
            continue
        is_over = chains.get(attempt, ended_at) < ended_at and evidence.plan.is_asynchronous
        said_at = told.get(attempt, ended_at)
        if is_over and said_at < ended_at - 1 and "checkUrl" not in evidence.plan.definition:
            yield Finding("I8", f"{job_id}: feedback was accepted, and yet {end}")
        elif not is_over and last.heard_at < ended_at - 1 and world.is_calm(calm_since, ended_at, job_id):
            yield Finding("I2", f"{job_id}: answered at {last.heard_at:.3f}, and yet {end}")


def _made_after(evidence: Evidence, moment: int) -> Iterator[int]:
    """When lives of the job that nothing was written of up to `moment` had their first commits, in ms."""
    known = {one.commit.entry.uid for one in evidence.written if one.at * 1_000 <= moment}
    for one in evidence.written:
        if one.commit.entry.uid not in known:
            yield round(one.at * 1_000) - 1


def _answers(evidence: Evidence) -> Found:
    job_id = evidence.plan.job_id
    changing = evidence.asked_for("create", "destroy")
    for before, asked, following in zip([None, *changing], changing, [*changing[1:], None], strict=False):
        is_done = isinstance(asked.reply, Taken | Unchanged)
        if not is_done or asked.answered_at is None:
            continue
        if asked.ask.what == "create" and following is None:
            left = evidence.world.left.get(job_id)
            if left is None or left.document is None:
                yield Finding("I8", f"{job_id}: created at {asked.answered_at}, and not there")
        if asked.ask.what == "destroy":
            until = 1 << 60 if following is None else following.asked_at
            if before is not None and before.times > 1:
                # A creation that was asked for again may come a second time: it begins another life.
                until = min([until, *_made_after(evidence, asked.answered_at)])
            for seen in evidence.seen:
                if seen.is_step and asked.answered_at < round(seen.at * 1_000) < until:
                    yield Finding("I8", f"{job_id}: destroyed at {asked.answered_at}, sent at {seen.at:.3f}")


def _triggers(evidence: Evidence) -> Found:
    job_id = evidence.plan.job_id
    manual = {
        number for number in evidence.executions if evidence.last(number).triggered_by is TriggeredBy.MANUAL
    }
    triggers = evidence.asked_for("trigger")
    answered = {one.number for one in triggers if one.number is not None}
    if len(answered) < sum(isinstance(one.reply, Started) for one in triggers):
        yield Finding("I7", f"{job_id}: two triggers got one number")
    for number in sorted(answered - evidence.executions.keys()):
        yield Finding("I8", f"{job_id}: trigger answered as execution {number}, which is not there")
    unanswered = sum(one.reply is None for one in triggers)
    if len(manual - answered) > unanswered:
        yield Finding("I8", f"{job_id}: {sorted(manual - answered)} run, {unanswered} triggers unanswered")


PROMISES = (
    _ledger,
    _delays,
    _ends,
    _early,
    _retries,
    _late,
    _sent_again,
    _bytes,
    _told,
    _numbers,
    _answers,
    _triggers,
    _heard,
)
