"""What happens to a job itself is an occurrence, made only while somebody takes them."""

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.failure_log import JobLife, changes_of
from tests.rows import each_row

NOW = 10_000
ENTRY = CatalogueEntry(
    job_id="one",
    uid="u",
    tenant="default",
    job_name="one",
    object_id=None,
    creator="me",
    kind="cron",
    state=JobState.ACTIVE,
    revision=1,
    labels={},
    parent_job=None,
    parent_execution=None,
    next_fire=None,
    execute_number=0,
    request_counts=0,
    missed=0,
    latest=b"{}",
    created_at=1,
    updated_at=1,
)


def _entry(**changes: object) -> CatalogueEntry:
    return msgspec.structs.replace(ENTRY, **changes)


PAUSED, FINISHED = _entry(state=JobState.PAUSED), _entry(state=JobState.FINISHED)
DESTROYED = _entry(state=JobState.DESTROYED)


@each_row(
    ("before", "after", "kinds"),
    [
        (None, ENTRY, ["jobCreated"]),
        (None, PAUSED, ["jobCreated"]),
        (DESTROYED, _entry(uid="v"), ["jobCreated"]),
        (ENTRY, _entry(revision=2), ["jobUpdated"]),
        (ENTRY, _entry(revision=2, state=JobState.PAUSED), ["jobUpdated", "jobPaused"]),
        (ENTRY, PAUSED, ["jobPaused"]),
        (PAUSED, ENTRY, ["jobResumed"]),
        (FINISHED, ENTRY, ["jobResumed"]),
        (FINISHED, _entry(revision=2), ["jobUpdated"]),
        (PAUSED, _entry(revision=2), ["jobUpdated", "jobResumed"]),
        (ENTRY, FINISHED, ["jobFinished"]),
        (ENTRY, DESTROYED, ["jobDestroyed"]),
        (DESTROYED, DESTROYED, []),
        (ENTRY, _entry(execute_number=1, next_fire=5), []),
    ],
)
def test_two_entries_say_what_happened(
    before: CatalogueEntry | None, after: CatalogueEntry, kinds: list[str]
) -> None:
    """In order; a turn that changed nothing of the job itself says nothing."""
    assert [kind.value for kind in changes_of(before, after)] == kinds


def test_it_names_the_job_its_state_and_its_revision() -> None:
    """While nobody takes occurrences none is made, not even the time is asked for."""
    occurrences, taken, asked = Occurrences(), list[Occurrence](), list[int]()

    def wall() -> int:
        asked.append(NOW)
        return NOW

    life = JobLife(occurrences=occurrences, wall=wall)
    life.observe(None, ENTRY)
    assert not asked
    occurrences.subscribe(taken.append)
    life.observe(ENTRY, PAUSED)
    (one,) = taken
    assert (one.at, one.tenant, one.job_id, one.uid, one.state, one.revision) == (
        NOW,
        "default",
        "one",
        "u",
        "paused",
        1,
    )
