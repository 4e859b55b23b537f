"""Which worker processes cannot write their files: from what they tell, until it is over."""

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.telemetry.worker_stores import WorkerStores
from tests.rows import each_row

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
