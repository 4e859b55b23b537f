"""Whatever happens to a job, in whatever order: what must hold holds after every turn."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Call, CallPart, CountMissed, ResolveInstances
from scheduler_service.domain.execution import LIVE, TERMINAL, TRANSITIONS, TriggeredBy
from scheduler_service.domain.records import AttemptStarted, ExecutionRecord, FiringRecord
from scheduler_service.domain.registered_services import LEFT, SILENT, UNKNOWN, Loss
from scheduler_service.domain.replies import Taken
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    InstanceLost,
    InstancesResolved,
    MissedCounted,
    Paused,
    Released,
    Replay,
    Resumed,
    Triggered,
    Updated,
)
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, Outcome, Token
from scheduler_service.engine.document_bytes import decode, durable_contexts, encode
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.job_summary import due
from scheduler_service.engine.parts.dispatch import SERIALS
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.rig import Rig, program

STEPS = [
    {"url": "http://target.test/1", "respEnvName": "A"},
    {"url": "http://target.test/2?x=${A.x}", "body": "${$.x}|json", "retryFrom": "step"},
]
SERVICE_STEPS = [
    {"url": "service://shop/1", "route": "shard", "respEnvName": "A"},
    {"url": "service://shop/2?x=${A[0]}", "body": "${schedulingFeedbackUrl}", "retryFrom": "step"},
]
TIMERS = [
    None,
    {"period": "external"},
    {"dueTime": "3s", "period": "7s"},
    {"dueTime": "0s", "period": "R5/PT4S", "jitterSeconds": 2},
    {"period": "*/5 * * * * ?", "misfire": {"policy": "skip", "graceSeconds": 2}},
    {"period": "*/3 * * * * ?", "misfire": {"policy": "fire_all", "limit": 3, "graceSeconds": 1}},
    {"period": "0 * * * * ?", "ttl": "3m", "misfire": {"graceSeconds": 0}},
]
DEFINITIONS = st.fixed_dictionaries(
    {
        "timer": st.sampled_from(TIMERS),
        "request": st.sampled_from([STEPS, STEPS[:1], SERVICE_STEPS, SERVICE_STEPS[:1]]),
        "async": st.booleans(),
        "checkUrl": st.sampled_from([None, "http://target.test/state/${A.x}"]),
        "cancelUrl": st.sampled_from([None, {"url": "http://target.test/stop"}]),
        "timeoutSeconds": st.sampled_from([5, 40]),
        "retry": st.sampled_from(
            [[], [{"errorEquals": "*", "intervalSeconds": 2}], [{"errorEquals": ["5xx", "e1", "timeout"]}]]
        ),
        "qos": st.sampled_from([0, 1]),
        "maxConcurrency": st.integers(1, 2),
        "overlapPolicy": st.sampled_from(["skip", "queue", "cancel_running", "allow"]),
        "queueLimit": st.sampled_from([0, 2, 100]),
        "leadSeconds": st.sampled_from([None, 2]),
        "notification": st.sampled_from(
            [[], [{"url": "http://caller.test/"}, {"url": "http://caller.test/${A.x}", "dedupe": "onChange"}]]
        ),
    }
)
REPORTS = st.sampled_from(
    [
        {},
        {"progress": "1/2"},
        {"status": "succeed"},
        {"status": "failed", "error": "e1"},
        {"status": "odd"},
        [1],
        None,
    ]
)
ANSWERS = st.builds(
    Answer,
    status=st.sampled_from([200, 200, 200, 202, 302, 404, 410, 500, 503]),
    headers=st.sampled_from(
        [
            (),
            (("Retry-After", "3"),),
            (("Location", "/state"),),
            (("location", "//x:y"),),
            (("X-Instance-State", "draining"),),
            (("X-Job-State", "gone"),),
        ]
    ),
    body=st.sampled_from([b"", b'{"x":1}', b'{"status":"succeed"}', b'{"status":"failed"}', b"[", b"7"]),
    truncated=st.sampled_from([False, False, False, True]),
)
FAULTS = st.builds(Fault, kind=st.sampled_from(list(FaultKind)), message=st.just("why"), unsent=st.booleans())
NUMBERS = st.integers(0, 6)


class AnyCourse(RuleBasedStateMachine):
    """A job to which anything happens."""

    rig: Rig

    @initialize(members=DEFINITIONS, held=st.booleans(), hold=st.booleans())
    def create(self, members: dict[str, Any], held: bool, hold: bool) -> None:
        around = Surroundings(hold_triggered=held, hold_recurring=hold, pending_triggers=2)
        self.around = around
        self.rig = Rig(around, **members)
        self.rig.instances = None
        self.calls: list[Call | CallPart] = []
        self.searches: list[ResolveInstances] = []
        self.answered: set[Token] = set()
        self.counting: list[CountMissed] = []
        self.states: dict[int, str] = {}
        self.ended: set[int] = set()
        self.attempts: list[int] = []
        self.entries: set[int] = set()
        self.runs: dict[int, int] = {}
        self.most = self.rig.programs[1].max_concurrency
        self.numbers = (0, 0)
        self.turn(Created(uid="uid", key=b"key"))

    def turn(self, event: Event) -> None:
        """One turn, and what it must have left."""
        rig = self.rig
        rig.records.clear()
        rig.effects.clear()
        before = rig.document
        decision = rig.deliver(event)
        self.calls.extend(rig.calls())
        self.searches.extend(rig.of(ResolveInstances, rig.effects))
        self.counting.extend(rig.of(CountMissed, rig.effects))
        self.follow_states(before)
        if isinstance(event, Updated):
            # Another schedule may plan what the old one had.
            self.entries, self.runs = set(), {}
        elif not isinstance(event, MissedCounted):
            # A count only repeats its run, which may be one of an earlier schedule.
            self.follow_ledger()
        for record in rig.of(AttemptStarted, rig.records):
            self.attempts.append(record.request_counts)
        assert self.attempts == sorted(set(self.attempts)), "requestCounts rise and never repeat"
        if decision.document is not None:
            head = decision.document.head
            assert (head.execute_number, head.request_counts) >= self.numbers
            assert head.request_counts >= self.numbers[1]
            self.numbers = (head.execute_number, head.request_counts)

    def follow_states(self, before: Document | None) -> None:
        """Every transition is one of the table, several in one turn included; what ended stays so."""
        for record in self.rig.of(ExecutionRecord, self.rig.records):
            number, state = record.execute_number, record.state
            assert number not in self.ended, "what has ended never comes back"
            known = self.states.get(number, "scheduled")
            assert state in reachable(known), f"{known} → {state}"
            self.states[number] = state
            if state in TERMINAL:
                self.ended.add(number)
        document = self.rig.document
        opens = [] if document is None else [run.execute_number for run in document.head.opens]
        assert not self.ended & set(opens)
        assert len(opens) == len(set(opens))

    def follow_ledger(self) -> None:
        """Every planned firing of a schedule is in the ledger once: alone, or within one run."""
        for record in self.rig.of(FiringRecord, self.rig.records):
            if record.until is not None:
                self.runs[record.planned_at] = record.until
                continue
            assert record.planned_at not in self.entries, "a planned firing has one entry"
            # A `one_time` whose execution a pause has ended before it began is owed again, perhaps at once.
            if record.reason != "paused" or self.rig.document is None or self.rig.summary.kind != "one_time":
                self.entries.add(record.planned_at)
        runs = sorted(self.runs.items())
        assert all(last < first for (_, last), (first, _) in pairwise(runs)), "runs do not overlap"
        for moment in self.entries:
            assert not any(first <= moment <= last for first, last in runs)

    @rule(outcome=ANSWERS | FAULTS, index=st.integers(0, 3))
    def answer(self, outcome: Outcome, index: int) -> None:
        """A call ends: the newest, an older one, or one that is not awaited."""
        if self.calls:
            token = self.calls[-1 - index % len(self.calls)].token
            self.turn(CallEnded(token, outcome))
            assert self.rig.reply != Taken() or token not in self.answered, "an answer counts once"
            self.answered |= {token} if self.rig.reply == Taken() else set()

    @rule(
        outcome=ANSWERS, uid=st.sampled_from(["uid", "else"]), number=NUMBERS, kind=st.sampled_from(CallKind)
    )
    def answer_anything(self, outcome: Outcome, uid: str, number: int, kind: CallKind) -> None:
        self.turn(CallEnded(Token(uid, number, number, kind, number % 2), outcome))

    @rule(
        uid=st.sampled_from(["uid", "else"]),
        number=NUMBERS,
        counts=st.integers(0, 1),
        place=st.tuples(st.integers(0, 2), NUMBERS),
        how=st.sampled_from([SILENT, LEFT, UNKNOWN]),
    )
    def lose_an_instance(self, uid: str, number: int, counts: int, place: tuple[int, int], how: str) -> None:
        """Of an attempt that may be the present one, and of any of its steps and parts."""
        counts = max(self.numbers[1] - counts, 0)
        serial = place[0] * SERIALS + place[1]
        loss = Loss(how, self.rig.now.wall)
        self.turn(InstanceLost(Token(uid, number, counts, CallKind.WATCH, serial), loss))

    @precondition(lambda self: self.searches)
    @rule(
        names=st.sampled_from(["", "a", "b", "abc"]),
        route=st.sampled_from(["random", "shard", "broadcast"]),
        index=st.integers(0, 2),
    )
    def resolve(self, names: str, route: str, index: int) -> None:
        """A search ends, the newest or an older one; one policy chooses one instance, a spread all."""
        token = self.searches[-1 - index % len(self.searches)].token
        names = names if route != "random" else names[:1]
        chosen = tuple(Chosen(name, f"http://{name}.test") for name in names)
        self.turn(InstancesResolved(token, chosen, route))

    @rule(params=st.sampled_from([b"{}", b'{"x":2}', b"[]"]), delay=st.sampled_from([None, -5_000, 0, 9_000]))
    def trigger(self, params: bytes, delay: int | None) -> None:
        self.turn(Triggered(params, None if delay is None else self.rig.wall + delay))

    @rule(step=st.integers(0, 3), kept=st.integers(0, 3))
    def replay(self, step: int, kept: int) -> None:
        self.turn(Triggered(replay=Replay(1, step, (b'{"x":3}',) * kept)))

    @rule(
        body=REPORTS,
        counts=st.integers(-2, 1),
        token=st.booleans(),
        shard=st.sampled_from([None, None, 0, 1, 2, 9]),
    )
    def report(self, body: Any, counts: int, token: bool, shard: int | None) -> None:
        number = max(self.numbers[1] + counts, 0)
        word = feedback_token(b"key", "uid", number) if token else "x"
        self.turn(FeedbackArrived(number, word, body, shard))

    @rule(wait=st.sampled_from([0, 1, 999, 2_000, 5_000, 30_000]))
    def pass_time(self, wait: int) -> None:
        """Both clocks run, and the alarm rings when something is due, or somewhat late."""
        self.rig.wall += wait
        self.rig.steady += wait
        self.turn(AlarmRang())

    @rule(step=st.sampled_from([-3_600_000, -1_500, 1_500, 90_000, 3_600_000]))
    def set_clock(self, step: int) -> None:
        self.rig.wall += step
        self.turn(AlarmRang())

    @rule(misfire=st.sampled_from(["skip", "fire_once", "fire_all"]))
    def activate(self, misfire: str) -> None:
        self.turn(Activated(misfire))

    @rule(drain=st.booleans())
    def pause(self, drain: bool) -> None:
        self.turn(Paused(drain))

    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        self.turn(CancelRequested(number))

    @rule(number=NUMBERS)
    def release(self, number: int) -> None:
        self.turn(Released(number))

    @rule(
        members=DEFINITIONS,
        active=st.sampled_from([None, True, False]),
        if_match=st.sampled_from([None, frozenset(), frozenset({1}), frozenset({2, 7})]),
    )
    def update(self, members: dict[str, Any], active: bool | None, if_match: frozenset[int] | None) -> None:
        document = self.rig.document
        revision = 2 if document is None else document.head.revision + 1
        made = program(self.around, **members)
        # Those that started under a higher limit keep their places.
        self.most = max(self.most, made.max_concurrency, self.live())
        self.rig.programs[revision] = made
        self.turn(Updated(revision, active, if_match))

    @rule()
    def create_again(self) -> None:
        if self.rig.document is not None:
            self.turn(Created(uid="else", key=b"else"))

    @precondition(lambda self: self.counting)
    @rule(count=st.integers(1, 10_000), shift=st.sampled_from([0, 0, 1]))
    def count(self, count: int, shift: int) -> None:
        self.turn(MissedCounted(self.counting[-1].first + shift, count))

    @rule()
    def resume(self) -> None:
        """The same process looks again: its calls are all alive."""
        self.turn(Resumed(tuple(one.token for one in [*self.calls, *self.searches])))

    @rule(wait=st.sampled_from([0, 20_000, 600_000]))
    def restart(self, wait: int) -> None:
        """The process dies; another one finds what was durable, later."""
        rig = self.rig
        if rig.document is None:
            return
        rig.document = decode(encode(rig.document))
        rig.holder = msgspec.structs.replace(rig.holder, boot=rig.holder.boot + "'")
        rig.stand_still(wait)
        self.turn(Resumed())

    @rule(really=st.sampled_from([False] * 9 + [True]))
    def destroy(self, really: bool) -> None:
        if really:
            self.turn(Destroyed())

    def live(self) -> int:
        document = self.rig.document
        return 0 if document is None else sum(run.state in LIVE for run in document.head.opens)

    @invariant()
    def no_more_than_may_run(self) -> None:
        document = self.rig.document
        if document is not None:
            policies = {one.overlap for one in self.rig.programs.values()}
            assert "allow" in policies or self.live() <= self.most

    @invariant()
    def what_waits_is_due(self) -> None:
        """`due` names a moment wherever time alone must bring something about."""
        document = self.rig.document
        if document is None:
            return
        at = due(self.rig.job)
        for run in document.head.opens:
            if run.state in LIVE:
                assert run.execute_number in document.contexts
                assert at.steady is not None
            elif run.state == "scheduled":
                assert at.wall is not None
                assert at.wall <= run.planned_at
        if document.head.active and document.head.next_fire is not None:
            assert at.wall is not None

    @invariant()
    def nobody_waits_for_a_free_place(self) -> None:
        document = self.rig.document
        if document is None:
            return
        waiting = [run for run in document.head.opens if run.state == "enqueued" and not run.held]
        assert not waiting or self.live() >= self.rig.programs[document.head.revision].max_concurrency

    @invariant()
    def snapshot_is_complete(self) -> None:
        document = self.rig.document
        if document is None:
            return
        again = decode(encode(document))
        assert again.head == document.head
        assert encode(again) == encode(document)
        assert again.contexts.keys() == durable_contexts(document).keys()

    @invariant()
    def waiting_firings_are_not_yet_accounted_for(self) -> None:
        document = self.rig.document
        for run in () if document is None else document.head.opens:
            waits = run.triggered_by is TriggeredBy.TIMER and run.state not in LIVE
            assert not waits or run.planned_at not in self.entries


def reachable(state: str) -> set[str]:
    """Every state that may follow in one turn, the same one included."""
    found, border = {state}, {state}
    while border:
        border = {str(after) for one in border for after in TRANSITIONS[one]} - found  # type: ignore[index]
        found |= border
    return found


AnyCourse.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAnyCourse = AnyCourse.TestCase
