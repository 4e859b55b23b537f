"""The catalogue's line of a job, as a turn leaves it."""

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.engine.program import Program
from scheduler_service.engine.status import Summary
from scheduler_service.ports.catalogue import CatalogueEntry


def describe(job_id: str, document: Document, program: Program, summary: Summary) -> CatalogueEntry:
    """The line of a job that lives."""
    head = document.head
    return CatalogueEntry(
        job_id=job_id,
        uid=head.uid,
        tenant=program.surroundings.tenant,
        job_name=program.job_name,
        object_id=program.object_id,
        creator=program.creator,
        kind=summary.kind,
        state=summary.state,
        revision=head.revision,
        labels=program.labels,
        parent_job=program.parent_job,
        parent_execution=program.parent_execution,
        next_fire=summary.next_fire,
        execute_number=head.execute_number,
        request_counts=head.request_counts,
        missed=head.missed,
        latest=msgspec.json.encode(head.latest),
        created_at=head.created_at,
        updated_at=head.updated_at,
        live=summary.live,
        waiting=summary.waiting,
        system=program.system,
    )


def bury(entry: CatalogueEntry, last: Document, now: Now) -> CatalogueEntry:
    """The line of a job that was destroyed: its counters stay, for a later life."""
    return msgspec.structs.replace(
        entry,
        state=JobState.DESTROYED,
        next_fire=None,
        execute_number=last.head.execute_number,
        request_counts=last.head.request_counts,
        missed=last.head.missed,
        updated_at=now.wall,
        live=0,
        waiting=0,
    )
