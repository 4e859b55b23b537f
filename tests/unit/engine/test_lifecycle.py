"""The life of a job: create, update, pause, activate, destroy (SPEC section 10)."""

from typing import Any

import pytest

from scheduler_service.domain.effects import Abandon, Inform, Retire
from scheduler_service.domain.execution import (
    LIVE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    ExecutionState,
    FiringOutcome,
    JobState,
    follow,
)
from scheduler_service.domain.moments import HOUR, MINUTE
from scheduler_service.domain.records import FiringRecord, Noted
from scheduler_service.domain.replies import Reactivated, Refusal, RefusalCode, Taken, Unchanged
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    MissedCounted,
    Paused,
    Released,
    Replanned,
    Replay,
    Resumed,
    Triggered,
    Updated,
)
from scheduler_service.domain.wire import Answer, CallKind, Token
from scheduler_service.engine.decision import Decision
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import EVERY_10, START, Rig, program, ticking

S = ExecutionState


@each_row(
    "event",
    [
        AlarmRang(),
        Triggered(),
        Paused(),
        Activated(),
        Updated(2),
        Destroyed(),
        Resumed(),
        Released(1),
        CancelRequested(1),
        MissedCounted(1, 1),
        FeedbackArrived(1, "t", {}),
        CallEnded(Token("uid", 1, 1, CallKind.STEP, 0), Answer(200)),
    ],
)
def test_without_a_job_nothing_happens(event: Event) -> None:
    """decide(nothing, any event but Created) does nothing."""
    decision = Rig().deliver(event)
    assert decision == Decision(None, reply=decision.reply)
    assert isinstance(decision.reply, Refusal)


def test_creation_goes_on_counting() -> None:
    """A new life's counters go on from the old ones."""
    rig = Rig()
    rig.create(execute_number=7, request_counts=9)
    rig.deliver(Triggered())
    assert rig.open(8).request_counts == 10
    # The same definition is fine and changes nothing; another one is a conflict
    rig = Rig().create()
    same = Created(uid="other", key=b"k", fingerprint=rig.programs[1].fingerprint)
    assert rig.deliver(same).reply == Unchanged()
    refusal = rig.refusal(Created(uid="other", key=b"k", fingerprint=b"else"))
    assert refusal.code is RefusalCode.CONFLICT


@each_row("members", [{"active": 0}, {"startPolicy": "manual"}])
def test_created_paused(members: dict[str, Any]) -> None:
    """`active` 0 and `startPolicy: manual` create a job that does not fire until it is activated."""
    rig = Rig(timer=None, **members).create()
    assert rig.summary.state is JobState.PAUSED
    rig.pass_time(100_000)
    assert rig.calls() == []
    rig.deliver(Activated())
    assert rig.states() == [S.PROCESSING]


def test_pause_ends_what_runs() -> None:
    """A pause takes the timer offline and cancels live executions and waiting firings, reason paused."""
    rig = ticking(overlapPolicy="queue", cancelUrl={"url": "http://target.test/stop"})
    rig.pass_time(20_000)
    rig.deliver(Triggered(planned_at=START + 99_000))
    assert rig.deliver(Paused()).reply == Taken()
    assert [rig.execution(number).reason for number in (1, 2)] == ["paused", "paused"]
    assert rig.execution(3).state is S.SCHEDULED
    assert len(rig.of(Abandon, rig.effects)) == len(rig.of(Inform, rig.effects)) == 1
    assert rig.summary.next_fire is None
    assert rig.deliver(Paused()).reply == Unchanged()
    rig.pass_time(60_000)
    assert rig.summary.execute_number == 3
    # Pause with drain lets it end
    rig = ticking(retry=[{"errorEquals": "*"}])
    rig.pass_time(10_000)
    rig.deliver(Paused(drain=True))
    rig.answer(500)
    rig.pass_time(1_000)
    rig.answer(200)
    assert rig.states() == [S.SUCCEEDED]


def test_a_pause_of_a_paused_job_ends_what_runs() -> None:
    """What drains and what was triggered; with `drain` or an update nothing. A further one changes nothing.

    A definition that is kept with `active` 0, to be triggered, is updated as any other.
    """
    rig = ticking(maxConcurrency=2)
    rig.programs[2] = program(timer=EVERY_10, maxConcurrency=2)
    rig.pass_time(10_000)
    rig.deliver(Paused(drain=True))
    rig.deliver(Triggered())
    assert rig.deliver(Paused(drain=True)).reply == Unchanged()
    assert rig.deliver(Updated(2, active=False)).reply == Taken()
    assert rig.states() == [S.PROCESSING, S.PROCESSING]
    assert rig.deliver(Paused()).reply == Taken()
    assert [(one.state, one.reason) for one in map(rig.execution, (1, 2))] == [(S.CANCELLED, "paused")] * 2
    assert rig.deliver(Paused()).reply == Unchanged()
    assert rig.summary.state is JobState.PAUSED


def test_trigger_of_a_paused_job_runs() -> None:
    """Triggers work for paused and finished jobs."""
    rig = ticking(active=0)
    rig.deliver(Triggered())
    assert rig.states() == [S.PROCESSING]
    # A finished job runs by trigger: also for finished jobs; then it is finished again
    rig = Rig(timer=None).create()
    rig.answer()
    assert rig.summary.state is JobState.FINISHED
    rig.deliver(Triggered())
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING]
    rig.answer()
    assert rig.summary.state is JobState.FINISHED


def test_activation_counts_the_pause() -> None:
    """The pause's firings are one entry `paused`, counted in the answer; the phase is kept."""
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "10s"})
    rig.deliver(Paused())
    rig.pass_time(35_000)
    assert rig.deliver(Activated()).reply == Reactivated(3)
    assert rig.ledger() == [(10_000, "skipped", "paused")]
    assert rig.summary.next_fire == START + 40_000
    assert rig.deliver(Activated()).reply == Unchanged()


@each_row(("misfire", "started"), [("fire_once", 1), ("fire_all", 3)])
def test_activation_may_catch_up(misfire: str, started: int) -> None:
    """`misfire` chooses for the pause's firings."""
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "10s"})
    rig.deliver(Paused())
    rig.pass_time(35_000)
    assert rig.deliver(Activated(misfire)).reply == Reactivated(3)
    assert len(rig.states()) == started


def test_update_replaces_the_schedule() -> None:
    """An update schedules anew, cancels waiting firings as superseded, and keeps waiting triggers."""
    rig = ticking(overlapPolicy="queue")
    rig.pass_time(20_000)
    rig.deliver(Triggered())
    rig.programs[2] = program(timer={"dueTime": "60s", "period": "60s"}, overlapPolicy="queue")
    assert rig.deliver(Updated(2)).reply == Taken()
    assert rig.states() == [S.PROCESSING, S.CANCELLED, S.ENQUEUED]
    assert rig.execution(2).reason == "superseded"
    assert rig.summary.next_fire == rig.wall + 60_000
    # `ttl` and a relative `dueTime` count from the update, not from the creation
    timer = {"dueTime": "10s", "period": "10s", "ttl": "25s"}
    rig = Rig(timer=timer, overlapPolicy="allow").create()
    rig.pass_time(12_000)
    rig.programs[2] = program(timer=timer, overlapPolicy="allow")
    rig.deliver(Updated(2))
    rig.pass_time(100_000)
    assert [moment for moment, _, _ in rig.ledger()] == [10_000, 22_000, 32_000]
    assert rig.summary.next_fire is None


def test_update_of_a_one_time_job_runs_it() -> None:
    """Update and execute: a one_time job runs at once, also when it had finished."""
    rig = Rig(timer=None).create()
    rig.answer()
    rig.programs[2] = program(timer=None)
    rig.deliver(Updated(2))
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING]
    # `If-Match` of another revision: nothing changes
    rig = ticking()
    rig.programs[2] = program(timer=EVERY_10)
    refusal = rig.refusal(Updated(2, if_match=frozenset({5})))
    assert refusal.code is RefusalCode.PRECONDITION
    assert rig.summary.revision == 1
    assert rig.deliver(Updated(2, if_match=frozenset({1}))).reply == Taken()


def test_update_and_the_pause() -> None:
    """Without `active` a paused job stays paused; with it the update pauses or starts."""
    rig = ticking()
    rig.programs |= {number: program(timer=EVERY_10) for number in (2, 3, 4, 5)}
    rig.pass_time(10_000)
    rig.deliver(Updated(2, active=False))
    assert (rig.summary.state, rig.states()) == (JobState.PAUSED, [S.CANCELLED])
    rig.deliver(Updated(3))
    assert rig.summary.state is JobState.PAUSED
    rig.deliver(Updated(4, active=True))
    assert rig.summary.state is JobState.ACTIVE


def test_destroy_stops_everything_silently() -> None:
    """Destruction ends what runs and what waits; cancelUrl is called, no notification is sent."""
    rig = ticking(
        overlapPolicy="queue",
        cancelUrl={"url": "http://target.test/stop"},
        notification=[{"url": "http://caller.test/"}],
    )
    rig.pass_time(20_000)
    decision = rig.deliver(Destroyed())
    assert decision.document is None
    assert rig.of(Retire, rig.effects) != []
    assert len(rig.of(Inform, rig.effects)) == 1
    assert rig.deliveries() == []
    assert [rig.execution(number).reason for number in (1, 2)] == ["destroyed", "destroyed"]
    # A cancelUrl whose template finds nothing is not called, and the log says so
    rig = Rig(cancelUrl={"url": "http://target.test/${$.nothing}"}).triggered()
    rig.deliver(CancelRequested(1))
    assert rig.of(Inform, rig.effects) == []
    assert rig.states() == [S.CANCELLED]
    assert rig.record_of(Noted).text.startswith("not called, template: ")


@each_row(("paused", "reason"), [(False, "destroyed"), (True, "paused")])
def test_destruction_leaves_in_the_ledger_what_was_owed(paused: bool, reason: str) -> None:
    """Moments that passed while nobody rang, or in a pause that did not end, are one entry."""
    rig = ticking()
    began = rig.wall
    if paused:
        rig.deliver(Paused())
    rig.wall += 35_000
    rig.deliver(Destroyed())
    assert rig.of(FiringRecord, rig.records) == [
        FiringRecord(began + 10_000, FiringOutcome.SKIPPED, until=began + 30_000, count=3, reason=reason)
    ]


def test_second_answer_changes_nothing() -> None:
    """A late, doubled or foreign answer changes nothing."""
    rig = Rig().triggered()
    foreign = Token("other", 1, 1, CallKind.STEP, 0)
    assert rig.deliver(CallEnded(foreign, Answer(200))).reply == Unchanged()
    assert rig.deliver(CallEnded(Token("uid", 5, 1, CallKind.STEP, 0), Answer(200))).reply == Unchanged()
    rig.answer()
    before = rig.document
    rig.answer()
    assert (rig.reply, rig.document) == (Unchanged(), before)


def test_system_jobs_are_kept() -> None:
    """One is triggered and paused like any other, but neither replaced nor destroyed (SPEC section 11)."""
    own: dict[str, Any] = {"system": True, "request": [{"url": "system://clean"}]}
    rig = Rig(**own).create()
    rig.programs |= {2: program(), 3: program(**own, jobDescription="changed")}
    for event in (Destroyed(), Updated(2)):
        before = rig.document
        refusal = rig.refusal(event)
        assert (refusal.code, rig.document) == (RefusalCode.CONFLICT, before)
    assert rig.deliver(Updated(3)).reply == Taken()
    rig.deliver(Triggered())
    assert rig.deliver(Paused()).reply == Taken()
    assert rig.states() == [S.CANCELLED]


def test_an_update_closes_the_books_of_the_old_schedule() -> None:
    """A firing that is due when the update comes still fires; nothing disappears from the ledger."""
    rig = ticking(overlapPolicy="allow")
    rig.programs[2] = program(timer={"dueTime": "60s", "period": "60s"})
    rig.wall += 10_000
    rig.deliver(Updated(2))
    assert rig.ledger() == [(10_000, "fired", None)]
    assert rig.execution(1).revision == 1
    # An update with `active` 0 is a pause; what runs is ended with the definition that it has
    rig = ticking(cancelUrl={"url": "http://target.test/old"})
    rig.pass_time(10_000)
    rig.programs[2] = program(timer=EVERY_10, cancelUrl={"url": "http://target.test/new"})
    rig.deliver(Updated(2, active=False))
    assert rig.of(Inform, rig.effects)[0].request.url == "http://target.test/old"
    assert rig.execution(1).reason == "paused"


@each_row(
    ("event", "later"),
    [
        ([Paused(), Activated()], True),
        ([Paused(), Activated("fire_once")], True),
        ([Updated(2)], True),
        ([Paused(), Updated(2), Activated("fire_all")], True),
        ([Replanned()], True),
        ([Updated(3)], False),
        ([Destroyed()], False),
    ],
)
def test_a_firing_that_jitter_holds_is_still_to_come(event: list[Event], later: bool) -> None:
    """Its planned moment counts: nothing before it fires it, skips it or repeats it (SPEC section 3)."""
    timer = {"period": "0 0 * * * ?", "jitterSeconds": 1800}
    rig = Rig(timer=timer, overlapPolicy="allow").create()
    rig.programs[2] = program(timer=timer, overlapPolicy="allow", jobDescription="changed")
    rig.programs[3] = program(timer={"period": "0 30 12 * * ?"})
    planned = rig.head.next_fire
    assert planned is not None
    hour = planned // HOUR * HOUR
    assert planned - hour > MINUTE
    rig.pass_time(hour + MINUTE - rig.wall)
    for one in event:
        rig.deliver(one)
    assert rig.of(FiringRecord, rig.records) == []
    rig.pass_time(hour + HOUR - rig.wall)
    assert [moment + START for moment, _, _ in rig.ledger()] == ([planned] if later else [])


def test_an_update_of_a_paused_job_accounts_for_the_pause() -> None:
    """The pause's firings up to the update are an entry `paused`, those after it another."""
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "10s"})
    rig.deliver(Paused())
    rig.pass_time(35_000)
    rig.programs[2] = program(timer={"dueTime": "2023-11-14 22:14:00", "period": "10s"})
    rig.deliver(Updated(2))
    rig.pass_time(24_000)
    rig.deliver(Activated())
    runs = rig.of(FiringRecord, rig.records)
    assert [(one.planned_at - START, one.count, one.reason) for one in runs] == [
        (10_000, 3, "paused"),
        (40_000, 2, "paused"),
    ]


def test_an_update_repeats_no_planned_moment() -> None:
    """A moment that was handed out early is not planned again, nor is one before which the clock was set."""
    base: dict[str, Any] = {"timer": {"period": "30 * * * * ?"}, "leadSeconds": 5, "overlapPolicy": "allow"}
    changes: list[dict[str, Any]] = [{"jobDescription": "x"}, {"timer": {"period": "0,30 * * * * ?"}}]
    for change in changes:
        rig = Rig(**base).create()
        rig.pass_time(6_000)
        assert rig.ledger() == [(10_000, "fired", None)]
        rig.programs[2] = program(**{**base, **change})
        rig.deliver(Updated(2))
        rig.pass_time(10_000)
        assert rig.ledger() == [(10_000, "fired", None)]
    # The same timer repeats nothing; another one counts from the update
    timed = ticking(overlapPolicy="allow", timer={"dueTime": "2023-11-14 22:13:30", "period": "10s"})
    timed.pass_time(10_000)
    timed.wall -= 15_000
    timed.programs[2] = timed.programs[1]
    timed.deliver(Updated(2))
    assert timed.summary.next_fire == START + 20_000
    timed.programs[3] = program(timer={"dueTime": "1s", "period": "0s"})
    timed.deliver(Updated(3))
    assert timed.summary.next_fire == timed.wall + 1_000


def test_used_repeats_stay_used_over_a_pause() -> None:
    """The pause's firings use up none, what was used stays used (SPEC section 10, PUT)."""
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "R3/PT10S"}, overlapPolicy="allow")
    rig.pass_time(10_000)
    rig.deliver(Paused())
    rig.pass_time(45_000)
    rig.deliver(Activated())
    rig.pass_time(100_000)
    fired = [moment for moment, outcome, _ in rig.ledger() if outcome == "fired"]
    assert fired == [10_000, 60_000, 70_000]


def test_a_downtime_within_a_pause_is_part_of_it() -> None:
    """It is one entry `paused`."""
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "10s"})
    rig.deliver(Paused())
    rig.wall += 3_605_000
    rig.deliver(AlarmRang())
    rig.deliver(Resumed())
    assert rig.ledger() == []
    assert rig.deliver(Activated()).reply == Reactivated(360)
    assert rig.ledger() == [(10_000, "skipped", "paused")]
    # `missed` has the bound of every count of missed firings
    rig = ticking(timer={"dueTime": "2023-11-14 22:13:30", "period": "1s"})
    rig.deliver(Paused())
    rig.wall += 100_000_000
    assert rig.deliver(Activated("fire_once")).reply == Reactivated(10_000)


def test_what_changes_a_job_is_when_it_was_updated() -> None:
    """`updatedAt` follows every change by hand, and no firing; `createdAt` stays (SPEC section 10)."""
    rig = ticking()
    rig.programs[2] = program(timer=EVERY_10)
    times = []
    for event in (AlarmRang(), Paused(), Paused(), Activated(), Activated(), Triggered(), Updated(2)):
        rig.deliver(event)
        times.append(rig.summary.updated_at - START)
        rig.pass_time(1_000)
    assert times == [0, 1_000, 1_000, 3_000, 3_000, 3_000, 6_000]
    assert rig.summary.created_at == START


def test_what_an_earlier_version_ended_stays_ended() -> None:
    """A `period` alone fired once then: read as `timing` now, it has neither firings nor missed ones."""
    rig = Rig(timer={"dueTime": "", "period": "5m"}).create()
    rig.answer()
    rig.programs[1] = program(timer={"period": "5m"})
    rig.pass_time(3_600_000)
    assert rig.summary.state is JobState.FINISHED
    before = len(rig.ledger())
    rig.programs[2] = program(timer={"period": "10m"})
    rig.deliver(Updated(2))
    assert [one[2] for one in rig.ledger()[before:]] == [None]
    assert rig.summary.missed == 0


@each_row("policy", ["skip", "queue", "cancel_running"])
@each_row("members", [{}, {"queueLimit": 0}, {"timer": EVERY_10}])
def test_an_update_of_a_one_time_job_waits_for_what_runs(policy: str, members: dict[str, Any]) -> None:
    """Whatever `overlapPolicy` says, the new one starts with the end of the old one, as newly defined."""
    rig = Rig(**{"timer": None, "overlapPolicy": policy, **members}).create()
    rig.pass_time(10_000)
    rig.programs[2] = program(**{"overlapPolicy": policy, **members, "timer": None})
    rig.deliver(Updated(2))
    assert rig.states() == [S.PROCESSING, S.ENQUEUED]
    rig.programs[3] = program(**{"overlapPolicy": policy, **members, "timer": None})
    rig.deliver(Updated(3))
    assert rig.states() == [S.PROCESSING, S.CANCELLED, S.ENQUEUED]
    assert rig.execution(2).reason == "superseded"
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.CANCELLED, S.PROCESSING]
    assert rig.execution(3).revision == 3


@each_row("drain", [False, True])
@each_row("timer", [None, {"startAt": "2023-11-14 22:13:30"}])
def test_a_pause_keeps_the_run_that_an_update_owes(drain: bool, timer: dict[str, Any] | None) -> None:
    """The waiting run ends as `paused`; it never started, so the resumed `one_time` fires, once."""
    rig = Rig(timer=None, timeoutSeconds=100, qos=1).create()
    rig.programs[2] = program(timer=timer, timeoutSeconds=100, qos=1)
    rig.deliver(Updated(2))
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED]
    rig.deliver(Paused(drain=drain))
    first = S.PROCESSING if drain else S.CANCELLED
    assert rig.states() == [first, S.CANCELLED]
    rig.restart()
    rig.pass_time(5_000)
    assert rig.states() == [first, S.CANCELLED]
    rig.deliver(Activated())
    if drain:
        assert rig.states() == [S.PROCESSING, S.CANCELLED, S.ENQUEUED]
        rig.answer()
    assert rig.states()[2:] == [S.PROCESSING]
    assert rig.execution(3).revision == 2
    rig.answer()
    rig.pass_time(60_000)
    assert len(rig.states()) == 3
    assert rig.summary.state is JobState.FINISHED


def test_an_update_with_a_later_moment_waits_for_what_runs_then() -> None:
    """`startAt` of a `one_time` may come while the execution of the earlier definition still runs."""
    rig = Rig(timer=None, timeoutSeconds=100).create()
    rig.programs[2] = program(timer={"startAt": "2023-11-14 22:13:30"})
    rig.deliver(Updated(2))
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED]
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING]
    # `allow`, or a free place: at once
    for members in ({"overlapPolicy": "allow"}, {"maxConcurrency": 2}):
        rig = Rig(timer=None, **members).create()
        rig.programs[2] = program(timer=None, **members)
        rig.deliver(Updated(2))
        assert rig.states() == [S.PROCESSING, S.PROCESSING]


def test_a_trigger_lets_the_update_that_waits_go_first() -> None:
    """`cancel_running`: the end that a trigger makes is the one for which the update waited."""
    rig = Rig(timer=None, overlapPolicy="cancel_running").create()
    rig.programs[2] = program(timer=None, overlapPolicy="cancel_running")
    rig.deliver(Updated(2))
    rig.deliver(Triggered())
    assert rig.states() == [S.CANCELLED, S.PROCESSING, S.ENQUEUED]
    rig.answer()
    assert rig.states() == [S.CANCELLED, S.SUCCEEDED, S.PROCESSING]


def test_new_labels_leave_the_schedule_as_it_is() -> None:
    """The next firing stays where it was, and has the new definition."""
    rig = ticking()
    rig.pass_time(4_000)
    rig.programs[2] = program(timer=EVERY_10, labels={"team": "ops"})
    assert rig.deliver(Updated(2, keeps_schedule=True)).reply == Taken()
    assert (rig.summary.next_fire, rig.summary.revision) == (START + 10_000, 2)
    rig.pass_time(6_000)
    assert rig.ledger() == [(10_000, "fired", None)]
    assert rig.execution(1).revision == 2
    # New labels run no one time job again: unlike a definition that replaces the old one
    rig = Rig(timer={"dueTime": "10s"}).create()
    rig.answer()
    rig.programs[2] = program(timer={"dueTime": "10s"}, labels={"team": "ops"})
    rig.deliver(Updated(2, keeps_schedule=True))
    assert rig.states() == [S.SUCCEEDED]


def disable(rig: Rig, *, disabled: bool = True, **members: Any) -> None:
    """The definition gets another revision, which differs in `disabled`."""
    revision = rig.head.revision + 1
    rig.programs[revision] = program(disabled=disabled, **{"timer": EVERY_10, **members})
    assert rig.deliver(Updated(revision, keeps_schedule=True)).reply == Taken()


def test_a_disabled_job_skips_its_firings() -> None:
    """It stays active with its timer; each firing is in the ledger, none is promised, no number is used."""
    rig = ticking(disabled=True)
    rig.pass_time(20_000)
    assert rig.ledger() == [(10_000, "skipped", "disabled"), (20_000, "skipped", "disabled")]
    assert (rig.summary.state, rig.summary.next_fire, rig.summary.execute_number) == (
        JobState.ACTIVE,
        None,
        0,
    )
    disable(rig, disabled=False)
    assert rig.summary.next_fire == START + 30_000
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING]
    # Its one planned firing is skipped, at its creation and at an update
    rig = Rig(timer=None, disabled=True).create()
    rig.programs[2] = program(timer=None, disabled=True, jobName="other")
    rig.deliver(Updated(2))
    assert rig.ledger() == [(0, "skipped", "disabled")] * 2
    assert rig.summary.state is JobState.FINISHED
    # A firing belongs to the definition of its moment
    rig = ticking()
    rig.stand_still(10_000)
    disable(rig)
    assert (rig.states(), rig.ledger()) == ([S.PROCESSING], [(10_000, "fired", None)])
    # The two are independent of each other: resuming enables nothing
    rig = ticking(disabled=True)
    rig.deliver(Paused())
    assert rig.summary.state is JobState.PAUSED
    rig.pass_time(15_000)
    assert rig.deliver(Activated(misfire="fire_once")).reply == Reactivated(1)
    assert rig.summary.state is JobState.ACTIVE
    assert rig.ledger() == [(10_000, "skipped", "disabled")]


@each_row("policy", ["fire_once", "fire_all", "skip"])
def test_a_downtime_of_a_disabled_job_is_no_misfire(policy: str) -> None:
    """Nothing is caught up, also where the job is enabled before the alarm rings."""
    timer = {**EVERY_10, "misfire": {"policy": policy, "graceSeconds": 0}}
    rig = ticking(disabled=True, timer=timer)
    rig.stand_still(65_000)
    disable(rig, disabled=False, timer=timer)
    assert {one[1:] for one in rig.ledger()} == {("skipped", "disabled")}
    assert (rig.states(), rig.summary.next_fire) == ([], START + 70_000)


@each_row("event", [Triggered(), Triggered(planned_at=START + 5_000), Triggered(replay=Replay(1))])
def test_triggers_of_a_disabled_job_are_refused(event: Event) -> None:
    """Also one for later, and a replay; none uses up a number."""
    rig = Rig(disabled=True).create()
    refusal = rig.refusal(event)
    assert (refusal.code, refusal.pointer) == (RefusalCode.DISABLED, "/jobId")
    assert "'job'" in refusal.message
    assert rig.summary.execute_number == 0


def test_what_waits_in_a_disabled_job_is_skipped_and_what_runs_goes_on() -> None:
    """Queued ones at once, delayed ones at their moment; what runs ends by itself, retries included."""
    rig = ticking(overlapPolicy="queue", retry=[{"errorEquals": "*"}])
    for event in (Triggered(), Triggered(), Triggered(planned_at=START + 9_000)):
        rig.deliver(event)
    disable(rig)
    assert rig.states() == [S.PROCESSING, S.SKIPPED, S.SCHEDULED]
    rig.answer(500)
    rig.pass_time(9_000)
    rig.answer(200)
    assert rig.states() == [S.SUCCEEDED, S.SKIPPED, S.SKIPPED]
    assert [rig.execution(number).reason for number in (2, 3)] == ["disabled", "disabled"]
    # What is not due yet is not lost
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    disable(rig, timer={"period": "external"})
    disable(rig, disabled=False, timer={"period": "external"})
    rig.pass_time(5_000)
    assert rig.states() == [S.PROCESSING]
    # `debug.hold_triggered` holds it until then
    rig = Rig(Surroundings(hold_triggered=True)).triggered()
    disable(rig, timer={"period": "external"})
    rig.deliver(Released(1))
    assert (rig.states(), rig.execution(1).reason) == ([S.SKIPPED], "disabled")


MAY_FOLLOW = {
    (S.SCHEDULED, S.ENQUEUED),
    (S.SCHEDULED, S.SKIPPED),
    (S.SCHEDULED, S.CANCELLED),
    (S.ENQUEUED, S.PROCESSING),
    (S.ENQUEUED, S.SKIPPED),
    (S.ENQUEUED, S.CANCELLED),
    (S.PROCESSING, S.SUCCEEDED),
    (S.PROCESSING, S.FAILED),
    (S.PROCESSING, S.CANCELLED),
    (S.FAILED, S.PROCESSING),
    (S.FAILED, S.CANCELLED),
    (S.FAILED, S.TERMINATED),
}


def test_states_follow_the_table() -> None:
    """`scheduled → enqueued → processing → …`: twelve steps are allowed, and no other."""
    for before in S:
        for after in S:
            if (before, after) in MAY_FOLLOW:
                assert follow(before, after) is after
            else:
                with pytest.raises(AssertionError, match=f"from {before} to {after}"):
                    follow(before, after)
    assert {S.SUCCEEDED, S.TERMINATED, S.CANCELLED, S.SKIPPED} == TERMINAL
    assert LIVE | WAITING | TERMINAL == set(S) == TRANSITIONS.keys()


def test_a_failed_attempt_without_retry_passes_through_failed() -> None:
    """`processing → failed → terminated`, and with a retry `failed → processing`."""
    rig = Rig(retry=[{"errorEquals": "500", "maxAttempts": 1}]).triggered()
    rig.answer(500)
    assert rig.states() == [S.FAILED]
    rig.pass_time(1_000)
    assert rig.states() == [S.PROCESSING]
    rig.answer(404)
    assert rig.states() == [S.TERMINATED]
    assert (S.PROCESSING, S.TERMINATED) not in MAY_FOLLOW
    # `failed → cancelled` when it is ended while a retry waits; the retry never comes
    rig = Rig(retry=[{"errorEquals": "500"}]).triggered()
    rig.answer(500)
    rig.deliver(CancelRequested(1, "enough"))
    ended = rig.execution(1)
    assert (ended.state, ended.reason, ended.error) == (S.CANCELLED, "enough", "cancelled")
    rig.pass_time(60_000)
    assert len(rig.calls()) == 1


def test_a_job_is_finished_when_nothing_is_live_or_waiting() -> None:
    """No further firing, nothing live, nothing waiting; `external` is never finished."""
    rig = Rig(timer={"dueTime": "10s", "period": "0s"}).create()
    rig.deliver(Triggered(planned_at=START + 20_000))
    rig.pass_time(10_000)
    assert rig.summary.next_fire is None
    seen = []
    for wait in (10_000, 0, 0):
        seen.append(rig.summary.state)
        rig.answer()
        seen.append(rig.summary.state)
        rig.pass_time(wait)
    assert seen == [JobState.ACTIVE] * 3 + [JobState.FINISHED] * 3, "runs, waits, runs, finished"
    external = Rig().triggered()
    external.answer()
    assert external.summary.state is JobState.ACTIVE


def test_a_skipped_execution_sends_nothing() -> None:
    """Skipped executions are in the ledger and the history, without a notification."""
    rig = Rig(timer=EVERY_10, notification=[{"url": "http://caller.test/"}]).create()
    rig.pass_time(20_000)
    assert rig.states() == [S.PROCESSING, S.SKIPPED]
    assert rig.told() == []
