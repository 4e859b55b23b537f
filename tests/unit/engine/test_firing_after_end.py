"""`periodFrom: end`: the next firing is one period after the end of the latest execution (SPEC section 3)."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import TERMINAL, TriggeredBy
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    CancelRequested,
    Destroyed,
    Paused,
    Triggered,
)
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import START, Rig

SECOND = 1_000
DELAY = 10 * SECOND


def delayed(due: str = "0s", period: str = "10s", **members: object) -> Rig:
    """A job with a fixed delay, its request in flight where it fires at once."""
    timer = {"dueTime": due, "period": period, "periodFrom": "end", **members.pop("more", {})}  # type: ignore[dict-item]
    return Rig(timer=timer, **members).create()


def next_fire(rig: Rig) -> int | None:
    """The next firing, in ms since the start."""
    return None if rig.head.next_fire is None else rig.head.next_fire - START


def test_the_next_firing_is_one_period_after_the_end() -> None:
    """None is due while the execution runs, however long that takes; then a whole period passes."""
    rig = delayed(timeoutSeconds=0, **{"async": True})
    rig.pass_time(47 * SECOND)
    assert (len(rig.calls()), next_fire(rig)) == (1, None)
    rig.deliver(CancelRequested(1))
    assert next_fire(rig) == 57 * SECOND
    rig.pass_time(9_999)
    assert len(rig.calls()) == 1
    rig.pass_time(1)
    assert rig.ledger() == [(0, "fired", None), (57 * SECOND, "fired", None)]


@each_row(
    "end",
    ["succeeded", "failed", "retried", "timeout", "cancelled", "lost", "template"],
)
def test_however_it_ended(end: str) -> None:
    """SPEC section 3: a success, a failure after its retries, a timeout, a cancel, a crash at qos 0."""
    members: dict[str, object] = {"timeoutSeconds": 3}
    if end == "retried":
        members["retry"] = [{"errorEquals": "500", "intervalSeconds": 4, "maxAttempts": 1}]
    if end == "template":
        members["request"] = [{"url": "http://target.test/${$.absent}"}]
    rig = delayed(**members)
    rig.stand_still(SECOND)
    match end:
        case "succeeded":
            rig.answer()
        case "failed":
            rig.answer(500)
        case "retried":
            rig.answer(500)
            assert next_fire(rig) is None
            rig.pass_time(4 * SECOND)
            rig.answer(500)
        case "timeout":
            rig.pass_time(2 * SECOND)
        case "cancelled":
            rig.deliver(CancelRequested(1))
        case "lost":
            rig.restart()
    ended = rig.execution(1).ended_at
    assert ended is not None
    assert next_fire(rig) == ended - START + DELAY


def test_a_trigger_counts_as_the_latest_execution() -> None:
    """While it runs none is due; its end begins the delay anew, but never brings a firing before dueTime."""
    rig = delayed("60s")
    rig.deliver(Triggered())
    assert next_fire(rig) is None
    rig.pass_time(5 * SECOND)
    rig.answer()
    assert next_fire(rig) == 60 * SECOND
    rig.pass_time(55 * SECOND)
    rig.answer()
    rig.pass_time(8 * SECOND)
    rig.deliver(Triggered())
    rig.pass_time(SECOND)
    rig.answer()
    assert next_fire(rig) == 79 * SECOND
    assert [one[0] for one in rig.ledger()] == [60 * SECOND]


def test_a_firing_that_starts_nothing_counts_as_ended() -> None:
    """A disabled job, and the switch that holds firings: each skipped one begins the delay anew."""
    for rig, reason in (
        (delayed(disabled=True), "disabled"),
        (
            Rig(
                Surroundings(hold_recurring=True),
                timer={"dueTime": "0s", "period": "10s", "periodFrom": "end"},
            ).create(),
            "debug",
        ),
    ):
        rig.pass_time(20 * SECOND)
        assert rig.ledger() == [(moment, "skipped", reason) for moment in (0, DELAY, 2 * DELAY)]
        assert rig.head.execute_number == 0


@each_row(("policy", "ledger"), [("fire_once", "late"), ("fire_all", "late"), ("skip", "skipped")])
def test_downtime_makes_one_firing_late(policy: str, ledger: str) -> None:
    """There is one at most, whatever the policy; the delay counts from what becomes of it."""
    rig = delayed(more={"misfire": {"policy": policy, "graceSeconds": 5}}, timeoutSeconds=1)
    rig.answer()
    rig.stand_still(3_600 * SECOND)
    rig.deliver(AlarmRang())
    assert [one[:2] for one in rig.ledger()[1:]] == [(DELAY, ledger)]
    if policy == "skip":
        assert next_fire(rig) == 3_610 * SECOND
        return
    assert next_fire(rig) is None
    rig.answer()
    assert next_fire(rig) == 3_610 * SECOND


def test_repeats_and_bounds_end_it() -> None:
    """`R3/PT10S` fires three times in all; no firing is later than endAt and ttl."""
    rig = delayed(period="R3/PT10S")
    for _ in range(5):
        rig.answer()
        rig.pass_time(DELAY)
    assert [one[0] for one in rig.ledger()] == [0, DELAY, 2 * DELAY]
    assert rig.summary.state == "finished"
    brief = delayed(more={"ttl": "12s"})
    brief.answer()
    assert next_fire(brief) == DELAY
    brief.pass_time(DELAY)
    brief.stand_still(3 * SECOND)
    brief.answer()
    assert (next_fire(brief), brief.summary.state) == (None, "finished")


def test_a_pause_counts_like_the_grid() -> None:
    """What fell into it is in the ledger as paused; after it dueTime counts anew, and the delay holds."""
    rig = delayed()
    rig.answer()
    rig.deliver(Paused())
    rig.pass_time(4 * SECOND)
    rig.deliver(Activated())
    assert next_fire(rig) == DELAY
    rig.deliver(Paused())
    rig.pass_time(60 * SECOND)
    rig.deliver(Activated())
    assert rig.ledger()[1:] == [(DELAY, "skipped", "paused"), (64 * SECOND, "fired", None)]
    # What runs on through a pause holds back the next
    rig = delayed()
    rig.deliver(Paused(drain=True))
    rig.pass_time(3 * SECOND)
    rig.deliver(Activated())
    assert next_fire(rig) is None
    rig.answer()
    assert next_fire(rig) == 13 * SECOND


def test_a_destroyed_job_owes_only_what_was_due() -> None:
    """While an execution runs none was, however long ago the one before has ended."""
    rig = delayed()
    rig.pass_time(5 * SECOND)
    rig.answer()
    rig.deliver(Triggered())
    rig.stand_still(30 * SECOND)
    rig.deliver(Destroyed())
    assert rig.ledger() == [(0, "fired", None)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 25_000)),
        st.tuples(st.sampled_from(["succeed", "fail", "cancel", "trigger", "restart"]), st.just(0)),
    ),
    max_size=25,
)


class Model:
    """A fixed delay as its sentence says it: from the history of executions alone."""

    def __init__(self, due: int) -> None:
        self.due = due

    def expected(self, rig: Rig) -> int | None:
        """The next firing, in ms since the start; None: an execution runs."""
        latest = {one.execute_number: one for one in rig.of(ExecutionRecord, rig.records)}
        ran = [one for one in latest.values() if one.started_at is not None]
        if any(one.state not in TERMINAL for one in ran):
            return None
        ends = [(one.ended_at or 0) - START + DELAY for one in ran]
        has_fired = any(one.triggered_by is TriggeredBy.TIMER for one in ran)
        return max([*ends, 0 if has_fired else self.due])


@given(
    steps=STEPS,
    due=st.sampled_from([0, 7]),
    qos=st.sampled_from([0, 1]),
    overlap=st.sampled_from(["skip", "queue", "cancel_running", "allow"]),
    limit=st.sampled_from([1, 3]),
)
@example(steps=[("trigger", 0), ("succeed", 0), ("pass", 10_000)], due=7, qos=1, overlap="allow", limit=1)
@settings(deadline=None, max_examples=150)
def test_it_is_always_one_delay_after_all_ends(
    steps: list[tuple[str, int]], due: int, qos: int, overlap: str, limit: int
) -> None:
    """Whatever happens, in any order, over every policy and crash: the plan follows from the history."""
    retry = [{"errorEquals": "500", "intervalSeconds": 2, "maxAttempts": 1}]
    rig = delayed(
        f"{due}s",
        qos=qos,
        overlapPolicy=overlap,
        maxConcurrency=limit,
        timeoutSeconds=15,
        retry=retry,
        more={"misfire": {"graceSeconds": 60}},
    )
    model = Model(due * SECOND)
    for what, amount in steps:
        match what:
            case "pass":
                rig.pass_time(amount)
            case "succeed" | "fail" if rig.calls():
                rig.answer(200 if what == "succeed" else 500)
            case "cancel":
                rig.deliver(CancelRequested(rig.head.execute_number))
            case "trigger":
                rig.deliver(Triggered())
            case "restart":
                rig.restart()
        assert next_fire(rig) == model.expected(rig)
    planned = [one[0] for one in rig.ledger()]
    assert planned == sorted(set(planned))
