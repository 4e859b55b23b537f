"""What happens to jobs and to the service, as alerts and `GET /events` tell it (SPEC section 14)."""

from enum import StrEnum

import msgspec

from scheduler_service.domain.execution import FailureType, TriggeredBy, write_execution_id


class OccurrenceKind(StrEnum):
    """The words of `GET /events` and of `alerts[].on`."""

    STARTED = "started"
    ATTEMPT_FAILED = "attemptFailed"
    FINAL_SUCCEED = "finalSucceed"
    FINAL_FAILED = "finalFailed"
    SKIPPED = "skipped"
    MISFIRED = "misfired"
    UNDELIVERABLE = "undeliverable"
    DELIVERED = "delivered"
    OVERDUE = "overdue"
    FAILING = "failing"
    RECOVERED = "recovered"
    JOB_CREATED = "jobCreated"
    JOB_UPDATED = "jobUpdated"
    JOB_PAUSED = "jobPaused"
    JOB_RESUMED = "jobResumed"
    JOB_FINISHED = "jobFinished"
    JOB_DESTROYED = "jobDestroyed"
    INSTANCE_LOST = "instanceLost"
    INSTANCE_BACK = "instanceBack"
    NODE_JOINED = "nodeJoined"
    NODE_LEFT = "nodeLeft"
    NODE_LOST = "nodeLost"
    WORKER_LOST = "workerLost"
    WORKER_BACK = "workerBack"
    STORE_LOST = "storeLost"
    STORE_BACK = "storeBack"
    LIMIT_REACHED = "limitReached"
    GAP = "gap"
    """Of streams alone: occurrences were lost, `count` of them."""


class Occurrence(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """One thing that happened at `at` (wall ms). It never has a body, a header or a secret.

    `tenant` None: it concerns the service, not the jobs of one tenant. `lateness_ms` is the start's distance
    from the planned moment. `subject` names what else is meant: an instance, a node, a worker process, a
    delivery, a limit, or what has `recovered`. `message` is what this program wrote; what a target said is of
    a body.
    """

    kind: OccurrenceKind
    at: int
    tenant: str | None = None
    job_id: str | None = None
    uid: str | None = None
    execute_number: int | None = None
    request_counts: int | None = None
    triggered_by: TriggeredBy | None = None
    state: str | None = None
    reason: str | None = None
    error: str | None = None
    failure_type: FailureType | None = None
    planned_at: int | None = None
    lateness_ms: int | None = None
    count: int | None = None
    revision: int | None = None
    subject: str | None = None
    node: str | None = None
    message: str | None = None

    @property
    def execution_id(self) -> str | None:
        """The execution that it is about."""
        if self.uid is None or self.execute_number is None:
            return None
        return write_execution_id(self.uid, self.execute_number)
