"""Drift in wire form: the jobs that differ from their declaration, why, and what the next scan does."""

import asyncio
from collections.abc import Container, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.json_differences import Difference, find_differences
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.registered_services import Service
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.services.declared_jobs import Apart, Case, DriftKind
from scheduler_service.services.reconcile import Finding, ReconcileInputs

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
}
PAGE_BYTES = 4 << 20
SWITCHED = frozenset({DriftKind.PAUSED, DriftKind.STARTED})
OWN = frozenset({DriftKind.CHANGED, DriftKind.OVERRIDDEN, DriftKind.KEPT})
"""The kinds in which a job of the service itself is compared with what it declares."""
COMPARED = OWN | {DriftKind.FOREIGN}


class DriftReport:
    """Answers `GET /services/{name}/drift`. `apart` runs what is large beside the loop.

    One report is made at a time, whatever many callers ask for: it has the declared texts in memory, up to
    4 MiB, and one job's definitions decoded.
    """

    def __init__(self, *, inputs: ReconcileInputs, apart: Apart) -> None:
        self._inputs = inputs
        self._apart = apart
        self._reading = asyncio.Lock()

    async def read(
        self, service: Service, *, after: str, limit: int, compared: Container[DriftKind] = COMPARED
    ) -> tuple[list[Raw], str | None]:
        """The first `limit` jobs that differ, in order of id, with ids above `after`; PAGE_BYTES at most.

        Those of the kinds `compared` have their differences. Also the id of the last one, where there are
        more. Raises StoreError.
        """
        items: list[Raw] = []
        last, size = "", 0
        async with self._reading, aclosing(self._inputs.look(service, after=after)) as findings:
            async for finding in findings:
                if finding.verdict.kind is DriftKind.SAME:
                    continue
                if len(items) == limit:
                    return items, last
                item = await self._write(finding, compared)
                size += len(item)
                if items and size > PAGE_BYTES:
                    return items, last
                items.append(Raw(item))
                last = finding.case.job_id
        return items, None

    async def _write(self, finding: Finding, compared: Container[DriftKind]) -> bytes:
        """The finding with the differences of the definitions with their defaults."""
        declared = finding.definition
        stored = None
        if declared is not None and finding.verdict.kind in compared:
            stored = await self._inputs.stored_text(finding)
        if declared is None or stored is None:
            return _encode(finding, ())
        write = partial(_compare, finding, declared.text, stored)
        is_large = len(declared.text) + len(stored) > LARGE_BYTES
        written: bytes = await self._apart(write) if is_large else write()
        return written


def _compare(finding: Finding, declared: bytes, stored: bytes) -> bytes:
    return _encode(finding, find_differences(_fill(declared), _fill(stored)))


def _encode(finding: Finding, compared: Iterable[Difference]) -> bytes:
    kind = finding.verdict.kind
    switched = _compare_switch(finding.case) if kind in COMPARED | SWITCHED else []
    return msgspec.json.encode(_show(finding, [*compared, *switched]))


def _show(finding: Finding, differences: list[Difference]) -> dict[str, Any]:
    case, kind = finding.case, finding.verdict.kind
    return {
        "jobId": case.job_id,
        "kind": kind,
        "action": finding.verdict.action,
        "message": REASONS[kind],
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
