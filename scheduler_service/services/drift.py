"""Drift in wire form: the jobs that differ from their declaration, why, and what the next scan does."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.differences import Difference, find_differences
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.services import Service
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.services.declared import Case, DriftKind
from scheduler_service.services.reconcile_inputs import Finding, ReconcileInputs

REASONS: Mapping[DriftKind, str] = {
    DriftKind.MISSING: "it is declared and not created yet; the next scan creates it",
    DriftKind.LOST: "it was created and is gone; the next scan creates it again",
    DriftKind.FINISHED: "it had finished before it was destroyed; force it to run it again",
    DriftKind.CHANGED: "the declaration has changed; the next scan updates the job",
    DriftKind.OVERRIDDEN: "the job was edited; the edit stays until the declaration changes, or force it",
    DriftKind.KEPT: "they differ, and onChange 'keep' keeps the job; force it to apply the declaration",
    DriftKind.PAUSED: "the job is paused (pauseReason says why); start it again, or force it",
    DriftKind.STARTED: "it is declared with active 0 and was started; pause it, or force it",
    DriftKind.FOREIGN: "the job was created elsewhere and is left alone; destroy it or force it",
    DriftKind.REMOVED: "it is no longer declared and stays paused until destroyed, unless declared again",
    DriftKind.EXPIRED: "it is no longer declared, and its grace period is over; the next scan destroys it",
    DriftKind.REFUSED: "this version of the scheduler refuses the declared definition; correct it",
}
SWITCHED = frozenset({DriftKind.PAUSED, DriftKind.STARTED})
COMPARED = frozenset({DriftKind.CHANGED, DriftKind.OVERRIDDEN, DriftKind.KEPT, DriftKind.FOREIGN})


class DriftReport:
    """Answers `GET /services/{name}/drift`, one after the other: each has up to 70 MiB in memory."""

    def __init__(self, *, inputs: ReconcileInputs) -> None:
        self._inputs = inputs
        self._reading = asyncio.Lock()

    async def read(self, service: Service, *, after: str, limit: int) -> list[dict[str, Any]]:
        """The first `limit` jobs that differ, in order of id, with ids above `after`. Raises StoreError."""
        written: list[dict[str, Any]] = []
        async with self._reading, aclosing(self._inputs.look(service)) as batches:
            async for findings in batches:
                for one in findings:
                    if one.verdict.kind is not DriftKind.SAME and one.case.job_id > after:
                        written.append(_write(one, await self._compare(one)))
                        if len(written) == limit:
                            return written
                del findings, one  # with their definitions, before those of the next batch are compiled
        return written

    async def _compare(self, finding: Finding) -> list[Difference]:
        """The differences of the definitions with their defaults, and of whether the job runs."""
        kind = finding.verdict.kind
        if kind not in COMPARED | SWITCHED:
            return []
        switched = _compare_switch(finding.case)
        if kind in SWITCHED or finding.definition is None:
            return switched
        stored = await self._inputs.stored_text(finding)
        if stored is None:
            return switched
        return [*find_differences(_fill(finding.definition.text), _fill(stored)), *switched]


def _write(finding: Finding, differences: list[Difference]) -> dict[str, Any]:
    case, kind = finding.case, finding.verdict.kind
    return {
        "jobId": case.job_id,
        "kind": kind,
        "action": finding.verdict.action,
        "message": f"{REASONS[kind]}{f': {finding.trouble}' if finding.trouble else ''}",
        "destroyAt": _end_of(finding),
        "differences": differences,
    }


def _end_of(finding: Finding) -> str | None:
    noted = finding.verdict.noted
    if noted is None or noted.removed_at is None:
        return None
    return rfc3339(noted.removed_at + finding.case.service.grace)


def _compare_switch(case: Case) -> list[Difference]:
    """The difference in whether the job runs; its state counts, not `active` of the posted text."""
    declared, stored = case.declared, case.stored
    if declared is None or stored is None or stored.state is JobState.FINISHED:
        return []
    is_declared, is_running = declared.active is not False, stored.state is JobState.ACTIVE
    if is_declared is is_running or (is_declared and declared.manual):
        return []
    return [Difference("/active", is_declared, is_running)]


def _fill(text: bytes) -> Any:
    """The definition with its defaults; as posted if this version refuses it."""
    value = decode_json(text)
    try:
        return parse_definition(value).model_dump(mode="json", by_alias=True, exclude={"active"})
    except ModelError:
        return {name: member for name, member in value.items() if name != "active"}
