"""What is said of a job from its state alone, and the table of states (SPEC section 10)."""

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
