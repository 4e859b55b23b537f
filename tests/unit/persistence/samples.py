"""Values that the tests of the store write."""

import sqlite3
from collections.abc import Sequence

import msgspec
from msgspec.structs import astuple

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import (
    ExecutionState,
    FailureType,
    FiringOutcome,
    JobState,
    TriggeredBy,
)
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    Audited,
    CheckEnded,
    DeliveryRecord,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    FiringRecord,
    LeaseChanged,
    Noted,
    Record,
    ResultKept,
    StepEnded,
)
from scheduler_service.domain.wire import Holder, OutboundRequest
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit


def entry(job_id: str = "job", **changes: object) -> CatalogueEntry:
    values: dict[str, object] = {
        "job_id": job_id, "uid": f"uid-{job_id}", "tenant": "default", "job_name": f"name of {job_id}",
        "object_id": None, "creator": "api", "kind": "cron", "state": JobState.ACTIVE, "revision": 1,
        "labels": {}, "parent_job": None, "parent_execution": None, "next_fire": 5_000, "execute_number": 0,
        "request_counts": 0, "missed": 0, "latest": b"\x00\xff", "created_at": 1_000, "updated_at": 1_000,
    }  # fmt: skip
    return CatalogueEntry(**{**values, **changes})  # type: ignore[arg-type]


def commit(job_id: str = "job", *, expected: int = 0, **changes: object) -> Commit:
    parts = {"document": b"doc", "due": Due(), "sequence": expected + 1}
    names = set(Commit.__struct_fields__) - {"entry"}
    parts.update({name: changes.pop(name) for name in names & set(changes)})
    chosen = changes.pop("entry", None) or entry(job_id, **changes)
    return Commit(entry=chosen, expected=expected, **parts)  # type: ignore[arg-type]


ONE, TWO = Holder("one", "1"), Holder("two", "2")


def claim(
    job_id: str = "job", *, holder: Holder = ONE, at: int = 100, state: bytes = b"", **changes: object
) -> TurnClaim:
    is_first = bool(changes.pop("is_first", False))
    return TurnClaim(commit(job_id, **changes), holder, at, state, is_first)  # type: ignore[arg-type]


def delivery(number: int, **changes: object) -> Delivery:
    request = OutboundRequest("POST", "http://t/x", (("A", "b"),), b"\x00body")
    parts = {"uid": "u", "execute_number": 1, "request_counts": 1, "ordinal": number, "event": "finalFailed"}
    return Delivery(delivery_id=f"d{number}", request=request, **{**parts, **changes})  # type: ignore[arg-type]


def batch(
    sequence: int = 1, *, uid: str = "u", records: tuple[Record, ...] = (), job_id: str = "job"
) -> Batch:
    return Batch(uid=uid, job_id=job_id, tenant="default", sequence=sequence, at=7, records=records)


def page_of_0_1_0(turns: Sequence[Commit], batches: Sequence[Batch]) -> bytes:
    """A page as version 0.1.0 wrote it: jobs after their turns, which their rows lack, and records."""
    jobs = [(astuple(one.entry), one.sequence, one.document, one.due.wall, one.due.steady) for one in turns]
    return msgspec.msgpack.encode((jobs, [astuple(one) for one in batches]))


def add_page(connection: sqlite3.Connection, content: bytes, number: int = 900) -> None:
    """Adds a page to the journal of a file."""
    connection.execute("INSERT INTO journal (page, content) VALUES (?, ?)", (number, content))


RECORDS_OF_0_1_0: tuple[Record, ...] = (
    ExecutionRecord(1, 1, ExecutionState.FAILED, TriggeredBy.MANUAL, 5, 5, failure_type=FailureType.LOST),
    AttemptStarted(1, 2, 3, "r"),
    AttemptEnded(1, 2, 3, "e", FailureType.HTTP, "m", 4),
    StepEnded(1, 2, 0, 3, Exchange("GET", "http://t", (("a", "b"),), b"\xff", response_body=b"\x00")),
    CheckEnded(1, 2, 0, 3, Exchange("GET", "http://t"), "running", "5%"),
    FeedbackSeen(1, 2, 3, b"{}", stale=True),
    Noted(1, 2, "k", "t", 3, 4),
    DeliveryRecord("d", 1, 2, "finalFailed", "http://t", "failed", exchange=Exchange("GET", "http://t")),
    FiringRecord(1, FiringOutcome.SKIPPED, 9, None, "misfire"),
)
"""The kinds that 0.1.0 wrote: dumps of it hold them."""
RECORDS: tuple[Record, ...] = (
    *RECORDS_OF_0_1_0,
    LeaseChanged(1, 2, 0, 3, "i", "lost", part=1),
    ResultKept(1, b"\xff", 200, "text/plain; charset=latin-1", truncated=True, masked=True),
    Audited(Act("updateJob", "Anna", key_id="k", address="::1", detail=b'{"given":{}}'), 200, revision=2),
)
