"""Claims and lost leases as a job takes them: its limit, its history (SPEC section 13)."""

from scheduler_service.domain.effects import AcceptChanges
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import DAY, HOUR
from scheduler_service.domain.records import LeaseChanged
from scheduler_service.domain.replies import Taken, Unchanged
from scheduler_service.domain.step_parts import LeaseChange, PartEnd, end_of_unclaimed
from scheduler_service.domain.turn_events import LeasesChanged, PartEnded, Updated
from tests.rows import each_row
from tests.unit.engine.parts.queue_rig import NOBODYS, STEP, claimed, end, parts_of, queued
from tests.unit.engine.rig import START, Rig, program


def told(rig: Rig) -> list[tuple[str, str, int | None, int]]:
    """What the history says of leases: what, by whom, of which part, when."""
    found = rig.of(LeaseChanged, rig.records)
    return [(one.what, one.instance, one.part, one.at - START) for one in found]


def test_what_waits_has_no_limit_of_its_own() -> None:
    """The queue ends it after its queue timeout; the job's own limit is at the latest possible end."""
    rig = queued()
    (part,) = parts_of(rig)
    assert (part.published, part.options.queue_timeout) == (rig.steady, DAY)
    assert rig.wait() == DAY + 60_000
    rig.pass_time(DAY)
    end(rig, said=end_of_unclaimed(DAY))
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("queue_timeout", FailureType.TIMEOUT)
    # The queue has not ended it by its latest end: the job looks again, and a claim starts the limit
    rig = queued()
    for _ in "ab":
        rig.pass_time(DAY + 60_000)
        assert rig.wait() == DAY + 60_000
    claimed(rig)
    assert rig.wait() == 60_000


def test_the_first_claim_starts_the_limit() -> None:
    """Whole, whatever earlier steps and the wait have taken; further claims change nothing of it."""
    rig = queued(request=[{"url": "http://target.test/"}, STEP])
    rig.pass_time(30_000)
    rig.answer(200)
    rig.pass_time(HOUR)
    assert isinstance(claimed(rig), Taken)
    assert rig.wait() == 60_000
    rig.pass_time(20_000)
    claimed(rig, serial=2, lost=True)
    claimed(rig, serial=3, by="v")
    assert rig.wait() == 40_000
    waited = HOUR + 30_000
    assert told(rig) == [
        ("claimed", "w", None, waited),
        ("lost", "w", None, waited + 20_000),
        ("claimed", "v", None, waited + 20_000),
    ]
    # The limit goes on in later steps: it is one limit for what follows the first claim
    rig = queued(request=[STEP, {"url": "http://target.test/"}])
    rig.pass_time(HOUR)
    claimed(rig)
    rig.pass_time(45_000)
    end(rig)
    assert rig.wait() == 15_000


def test_each_change_counts_once() -> None:
    """Repeated or out of order: the newest serial that the job has heard decides."""
    rig = queued(STEP | {"parallelism": 2})
    (first, _) = parts_of(rig)
    claim, loss = LeaseChange(1, "w", rig.steady), LeaseChange(2, "w", rig.steady, True)
    rig.deliver(LeasesChanged(first.name, (claim, loss)))
    before = rig.document
    for changes in ((claim,), (claim, loss)):
        assert isinstance(rig.deliver(LeasesChanged(first.name, changes)).reply, Taken)
    assert rig.document == before
    assert len(told(rig)) == 2
    assert rig.of(AcceptChanges, rig.effects)[0] == AcceptChanges(first.name, 2)
    assert isinstance(rig.deliver(LeasesChanged(first.name, ())).reply, Unchanged)
    # The step is over; so its row is gone, and nothing needs to be accepted
    rig = queued()
    end(rig)
    assert isinstance(claimed(rig), Unchanged)
    assert rig.of(AcceptChanges, rig.effects) == []
    # A completion may be faster than its claim
    rig = queued(STEP | {"parallelism": 2})
    part = parts_of(rig)[1]
    done = PartEnd(body=b"1", instance="w")
    rig.deliver(PartEnded(part.name, done, NOBODYS, (LeaseChange(1, "w", rig.steady),)))
    assert told(rig) == [("claimed", "w", 1, 0)]
    assert rig.wait() == 60_000
    assert isinstance(claimed(rig, 1), Taken)
    assert len(told(rig)) == 1


@each_row(("timeout", "left"), [(600, 60_000), (20, 20_000)])
def test_downtime_after_a_claim_is_not_held_against_the_worker(timeout: float, left: int) -> None:
    """The claim was durable in the queue, and is told again by the next process: the limit still counts."""
    rig = queued(qos=1, timeoutSeconds=timeout)
    (part,) = parts_of(rig)
    change = LeaseChange(1, "w", rig.steady)
    rig.pass_time(HOUR)
    rig.restart()
    rig.deliver(LeasesChanged(part.name, (change,)))
    assert rig.wait() == left
    assert told(rig) == [("claimed", "w", None, 0)]


def test_an_update_takes_a_part_from_its_holder() -> None:
    """The history says from whom; what waits may wait as long as the update says."""
    rig = queued(STEP | {"parallelism": 2})
    claimed(rig, 0)
    rig.programs[2] = program(request=[STEP | {"parallelism": 2, "specificInstances": ["a", "b"]}])
    rig.deliver(Updated(2))
    assert told(rig)[1:] == [("withdrawn", "w", 0, 0)]
    other = queued()
    other.programs[2] = program(request=[STEP | {"queueTimeoutSeconds": 200_000}])
    other.deliver(Updated(2))
    assert other.wait() == 200_060_000


def test_a_clock_that_was_set_back_lengthens_no_limit_of_queued_work() -> None:
    """Neither before a claim, nor after one, nor by a claim from before that is heard of later."""
    rig = queued(qos=1)
    (part,) = parts_of(rig)
    rig.pass_time(HOUR)
    rig.wall, rig.steady = rig.wall - 2 * HOUR, rig.steady - 2 * HOUR
    rig.restart()
    assert rig.wait() == DAY + 60_000
    rig.deliver(LeasesChanged(part.name, (LeaseChange(1, "w", rig.steady + 2 * HOUR),)))
    assert rig.wait() == 60_000
    rig.wall, rig.steady = rig.wall - HOUR, rig.steady - HOUR
    rig.restart()
    assert rig.wait() == 60_000
