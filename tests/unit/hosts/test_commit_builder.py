"""What the catalogue is told of a job."""

import msgspec

from scheduler_service.domain.document import Cursor, Document, Head, Latest
from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.engine.job_summary import Summary
from scheduler_service.hosts.commit_builder import describe
from scheduler_service.ports.catalogue import CatalogueEntry
from tests.unit.hosts.house import describe as define


def test_each_member_of_an_entry_is_its_own() -> None:
    """No two of them are alike here, so that none can stand for another one."""
    program = msgspec.structs.replace(
        define(jobName="a name", objectId="an object", creator="who", labels={"team": "ops"}).program,
        parent_job="a parent",
        parent_execution=12,
    )
    latest = Latest(5, ExecutionState.FAILED, "an error")
    head = Head(
        uid="a uid",
        key=b"",
        revision=4,
        created_at=7,
        updated_at=8,
        cursor=Cursor(7),
        execute_number=5,
        request_counts=6,
        missed=3,
        latest=latest,
    )
    summary = Summary(
        state=JobState.PAUSED,
        kind="cron",
        revision=4,
        next_fire=9,
        execute_number=5,
        request_counts=6,
        missed=3,
        latest=latest,
        created_at=7,
        updated_at=8,
        live=1,
        waiting=2,
    )
    assert describe("a job", Document(head), program, summary) == CatalogueEntry(
        job_id="a job",
        uid="a uid",
        tenant="default",
        job_name="a name",
        object_id="an object",
        creator="who",
        kind="cron",
        state=JobState.PAUSED,
        revision=4,
        labels={"team": "ops"},
        parent_job="a parent",
        parent_execution=12,
        next_fire=9,
        execute_number=5,
        request_counts=6,
        missed=3,
        latest=msgspec.json.encode(latest),
        created_at=7,
        updated_at=8,
        live=1,
        waiting=2,
        system=False,
    )
