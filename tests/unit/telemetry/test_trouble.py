"""For how long a loop was held, and how long that is told (SPEC section 14)."""

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.telemetry.trouble import LATELY, STOOD, Standstills, WorkerStores
from tests.rows import each_row


class Time:
    """A clock in seconds."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_longest_hold_of_the_last_minute_is_told() -> None:
    """Shorter and older ones are not."""
    time = Time()
    standstills = Standstills(clock=time)
    assert standstills.longest == 0
    for seconds in (0.2, 3.0, 0.5):
        standstills.note(seconds)
        time.now += 10
    assert standstills.longest == 3
    time.now += LATELY - 15
    assert standstills.longest == 0.5
    time.now += LATELY
    assert standstills.longest == 0
    # However long it slept
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(86_400)
    time.now += LATELY - 1
    assert standstills.lasting == 86_400
    time.now += 2
    assert standstills.lasting is None


def test_a_standstill_is_told_for_as_long_as_it_was() -> None:
    """A loop that mostly stands is told most of the time; what is shorter than the bound never."""
    time = Time()
    standstills = Standstills(clock=time)
    standstills.note(STOOD - 0.1)
    assert standstills.lasting is None
    standstills.note(STOOD + 2)
    assert standstills.lasting == STOOD + 2
    time.now += STOOD + 1.9
    assert standstills.lasting == STOOD + 2
    time.now += 0.2
    assert standstills.lasting is None


LOST, BACK = OccurrenceKind.STORE_LOST, OccurrenceKind.STORE_BACK


def told(*happened: tuple[OccurrenceKind, str | None]) -> WorkerStores:
    stores = WorkerStores()
    for kind, subject in happened:
        stores.take(Occurrence(kind=kind, at=1, subject=subject))
    return stores


def test_each_process_and_part_is_named() -> None:
    """What the service itself cannot write is not among them."""
    stores = told((LOST, "worker 2"), (LOST, "worker 3/history"), (LOST, None), (LOST, "history"))
    assert [stores.lacks(number) for number in range(4)] == [[], [], ["store"], ["history"]]
    assert stores.name("store", 3) == ["store of worker process 2"]
    assert stores.name("history", 3) == ["history of worker process 3"]


@each_row("kind", [OccurrenceKind.WORKER_LOST, OccurrenceKind.WORKER_BACK])
def test_it_is_over_when_the_process_says_so_or_starts_again(kind: OccurrenceKind) -> None:
    """Each part for itself; a new process has all of them."""
    lost = ((LOST, "worker 2"), (LOST, "worker 2/history"), (LOST, "worker 1"))
    assert told(*lost, (BACK, "worker 2")).lacks(2) == ["history"]
    again = told(*lost, (kind, "2"))
    assert (again.lacks(2), again.lacks(1)) == ([], ["store"])
