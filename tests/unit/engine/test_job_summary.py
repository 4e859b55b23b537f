"""What is said of a job from its state alone, and the table of states (SPEC section 10)."""

import random

import pytest

from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.execution import (
    ExecutionState,
)
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import without_params
from scheduler_service.domain.turn_events import AlarmRang, Paused, Triggered, Updated
from scheduler_service.engine.job_summary import (
    Queued,
    due,
    find_queued_parts,
    find_state,
    revisions,
    summarize,
)
from scheduler_service.engine.turn_state import MANY_OPENS, TurnState, replace
from tests.rows import each_row
from tests.unit.engine.parts.queue_rig import STEP, claimed, end, queued
from tests.unit.engine.rig import START, STEADY, Rig, program

S = ExecutionState


def test_a_job_that_is_not_there() -> None:
    """It is due never, and has no summary."""
    rig = Rig()
    assert due(rig.job) == Due()
    with pytest.raises(AssertionError, match="no summary"):
        summarize(rig.job)
    # Of one that has not ended, and of the newest; nothing is said of another life's or an older one
    rig = Rig().triggered()
    assert find_state(rig.job, "uid", 1) is S.PROCESSING
    rig.answer()
    rig.deliver(Triggered())
    rig.answer(500)
    assert find_state(rig.job, "uid", 2) is rig.execution(2).state
    assert find_state(rig.job, "uid", 1) is find_state(rig.job, "uid", 3) is None
    assert find_state(rig.job, "another life", 2) is None
    assert find_state(Rig().job, "uid", 1) is None
    # One runs, two wait in line behind it; each number of the summary is its own
    rig = Rig(overlapPolicy="queue").create()
    for _ in range(3):
        rig.deliver(Triggered())
    assert (rig.summary.live, rig.summary.waiting) == (1, 2)
    assert (rig.summary.execute_number, rig.summary.request_counts, rig.summary.missed) == (3, 1, 0)


def test_due_is_the_earliest_of_each_line() -> None:
    """Firings and delayed triggers wait on the wall, limits, retries and checks on the steady line."""
    rig = Rig(timer={"dueTime": "10s", "period": "10s"}, leadSeconds=2, timeoutSeconds=30).create()
    assert due(rig.job) == Due(START + 8_000, None)
    rig.deliver(Triggered(planned_at=START + 5_000))
    rig.deliver(Triggered())
    assert due(rig.job) == Due(START + 5_000, STEADY + 30_000)
    rig.deliver(Paused(drain=True))
    assert due(rig.job) == Due(START + 5_000, STEADY + 30_000)
    idle = Rig().create()
    assert due(idle.job) == Due()
    # The limit wins where it comes first
    rig = Rig(
        **{"async": True}, checkUrl="http://t.test/", checkRateSeconds=90, timeoutSeconds=30
    ).triggered()
    rig.answer(200)
    assert due(rig.job).steady == STEADY + 30_000


def test_the_revisions_that_a_turn_needs() -> None:
    """The one in force, those of live executions, those of runs that are being counted."""
    rig = Rig(timer={"period": "* * * * * ?", "misfire": {"policy": "skip"}}, overlapPolicy="allow").create()
    rig.wall += 3_600_000
    rig.deliver(AlarmRang())
    assert rig.of(CountMissed, rig.effects) != []
    for revision in (2, 3):
        rig.programs[revision] = program(overlapPolicy="allow")
        rig.deliver(Updated(revision))
        rig.deliver(Triggered())
    assert revisions(rig.document) == {1, 2, 3}


def test_parameters_that_are_not_kept() -> None:
    """Without its parameters an execution says that there were some; that there were none it may say."""
    rig = Rig().create()
    rig.deliver(Triggered(params=b'{"a":1}'))
    rig.deliver(Triggered())
    bare = without_params(rig.execution(1))
    assert (bare.params, bare.params_complete) == (None, False)
    assert without_params(bare) == bare
    assert without_params(rig.execution(2)) == rig.execution(2)


def test_the_parts_in_a_queue_are_counted() -> None:
    """Of this execution and this life alone, while the step is in the queue."""
    rig = queued(STEP | {"parallelism": 3})
    assert find_queued_parts(rig.job, "uid", 1) == Queued(0, "work", 3, 0, 0)
    claimed(rig, 0)
    claimed(rig, 1)
    end(rig, 0)
    assert find_queued_parts(rig.job, "uid", 1) == Queued(0, "work", 1, 1, 1)
    assert find_queued_parts(rig.job, "uid", 2) is find_queued_parts(rig.job, "else", 1) is None
    end(rig, 1)
    end(rig, 2)
    assert find_queued_parts(rig.job, "uid", 1) is find_queued_parts(Rig().job, "uid", 1) is None


def test_a_draft_keeps_to_the_table() -> None:
    """Every change of a state is checked against the table."""
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    turn = TurnState(rig.job, rig.document, rig.now)
    for after in (S.PROCESSING, S.FAILED, S.SUCCEEDED):
        for put in (turn.put, turn.requeue):
            with pytest.raises(AssertionError, match="from scheduled"):
                put(replace(rig.open(1), state=after))
    turn.requeue(replace(rig.open(1), state=S.ENQUEUED))
    assert turn.opens[1].state is S.ENQUEUED


@each_row("seed", range(5))
def test_what_is_open_is_counted(seed: int) -> None:
    """Through every change, as many as there are: a turn over thousands of them counts once."""
    rig = Rig().create()
    for _ in range(3 * MANY_OPENS):
        rig.deliver(Triggered(planned_at=START + 5_000))
    turn, chance = TurnState(rig.job, rig.document, rig.now), random.Random(seed)
    for step in range(200):
        run = chance.choice(list(turn.opens.values()))
        if run.state is S.SCHEDULED:
            turn.requeue(
                replace(run, state=S.ENQUEUED, queued=chance.random() < 0.3, held=chance.random() < 0.3)
            )
        elif run.state is S.ENQUEUED:
            turn.put(replace(run, state=S.PROCESSING))
        elif step > 100 and len(turn.opens) > MANY_OPENS // 2:
            turn.close(run, S.SUCCEEDED)
        runs = turn.opens.values()
        assert turn.count_live() == len(turn.live())
        assert turn.count_queued() == sum(one.state is S.ENQUEUED and not one.held for one in runs)
        assert turn.has_backlog() == any(one.queued for one in runs)
