"""What a process knows of rows is bounded, and is what was read or won last."""

from scheduler_service.persistence.job_store.claim_rows import OWN_CLAIMS
from scheduler_service.persistence.job_store.row_cache import KnownRows
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.state import StoredJob
from tests.unit.persistence.samples import claim, commit


def note(known: KnownRows, job_id: str) -> None:
    """Its row was read, as it is after its first turn."""
    turn = commit(job_id, sequence=1)
    known.note(StoredJob(turn.entry, 1, turn.document, turn.due))


def is_whole(known: KnownRows, job_id: str) -> bool:
    """Whether its second turn is written with all columns."""
    ((statement, _),) = known.plan([claim(job_id, expected=1, state=b"x")])
    return statement.columns == OWN_CLAIMS.columns


def test_the_rows_noted_last_are_known() -> None:
    """Those noted longest ago go first; a row that is noted again counts as new."""
    known = KnownRows(most=2)
    for job_id in ("a", "b", "a", "c"):
        note(known, job_id)
    assert [is_whole(known, job_id) for job_id in "abc"] == [False, True, False]


def test_a_plan_is_no_knowledge() -> None:
    """Only a turn that has won says how its row is; after one that was lost nothing is known."""
    known = KnownRows()
    note(known, "a")
    turn = claim("a", expected=1, state=b"x")
    for _ in range(2):  # the first transaction failed
        assert not is_whole(known, "a")
    known.settle([turn], [None])
    assert is_whole(known, "a")  # it expects the turn before
    note(known, "a")
    assert not is_whole(known, "a")
    known.settle([turn], [StoreConflict("late")])
    assert is_whole(known, "a")
