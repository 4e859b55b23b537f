"""Requests that change many jobs or executions at once (SPEC section 10)."""

from typing import Annotated, Any, Literal

from pydantic import Field

from client_sdk.models.definition import LabelName
from client_sdk.models.fields import Count, FilledText, JobId, Text, WireModel

MOST_NAMED = 5_000
"""So many ids fit into a body of the usual limit."""
MOST_LABELS = 100

JobAction = Literal["pause", "resume", "trigger", "destroy", "label", "disable", "enable"]
ExecutionAction = Literal["replay", "cancel"]


class JobSelection(WireModel):
    """Which jobs: those named, or those that fit the filters of `GET /jobs`; `{}` are all."""

    job_ids: Annotated[list[JobId], Field(max_length=MOST_NAMED)] | None = None
    filter: dict[str, Any] | None = None


class BulkJobs(WireModel):
    """`POST /bulk/jobs`: one command for each of many jobs.

    `drain` belongs to `pause`, `misfire` to `resume`, `params` to `trigger`, `labels` to `label`, where null
    removes one. With `dryRun` nothing is done.
    """

    action: JobAction
    select: JobSelection
    dry_run: bool = False
    drain: bool = False
    misfire: Literal["skip", "fire_once", "fire_all"] = "skip"
    params: dict[str, Any] | None = None
    labels: Annotated[dict[LabelName, Text | None], Field(max_length=MOST_LABELS)] | None = None


class ExecutionSelection(WireModel):
    """Which executions: those named, or those that fit the filters of `GET /executions`."""

    execution_ids: Annotated[list[FilledText], Field(max_length=MOST_NAMED)] | None = None
    filter: dict[str, Any] | None = None


class BulkExecutions(WireModel):
    """`POST /bulk/executions`: cancels or replays many executions.

    `reason` belongs to `cancel`, `fromStep` and `params` to `replay`; without `params` each has its own.
    """

    action: ExecutionAction
    select: ExecutionSelection
    dry_run: bool = False
    reason: FilledText | None = None
    from_step: Count = 0
    params: dict[str, Any] | None = None
