"""The parts of a step: those sent to instances of a service, and those that they claim (SPEC section 13)."""

import hashlib

import msgspec

from client_sdk.models.step import DELAY_SECONDS, LEASE_SECONDS, RETRIES
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest

BROADCAST, SHARD = "broadcast", "shard"
SPREAD = frozenset({BROADCAST, SHARD})
"""The routes with which every instance gets a part."""
INSTANCE_STATE, DRAINING, DRAINING_STATUS = "x-instance-state", "draining", 503
WITHDRAWN = Answer(DRAINING_STATUS, headers=((INSTANCE_STATE, DRAINING),))
"""What counts as the answer of an instance that has said that it takes no more work, and is not called."""
PAUSED = Fault(FaultKind.NO_INSTANCE, "the service is paused", unsent=True)
"""What counts as the outcome of a call that waited when its service was paused, and was not sent."""


class Chosen(msgspec.Struct, frozen=True, gc=False):
    """An instance to which a part goes; `address` is its base `http(s)://host[:port][/path]`.

    `sign`: the secret that signs calls of its service; empty: none. `vouched` as in `OutboundRequest`.
    """

    instance: str
    address: str
    sign: str = ""
    vouched: bool | None = None


class PartEnd(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a part ended; `error` None: it succeeded.

    `body` is its response, kept for later templates. `dropped`: its instance of a broadcast drains, so that
    the part is not done; it counts neither as succeeded nor as failed.
    """

    status: int = 200
    url: str = ""
    body: bytes | None = None
    truncated: bool = False
    error: str | None = None
    failure_type: FailureType | None = None
    message: str = ""
    retry_after: int | None = None
    timed_out: bool = False
    instance: str = ""
    at: int = 0
    dropped: bool = False


class Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One part of a step that calls instances.

    `serial` names its current call, or, if `request` is None, the search for another instance. An ended part
    has only `end`. `refused` are the instances that drain, were not reached or do not know the job. `fault`:
    the one before was not reached; `gone`: the answer of the last one that does not know the job.
    """

    index: int
    serial: int
    instance: str = ""
    request: OutboundRequest | None = None
    sent_at: int = 0
    end: PartEnd | None = None
    refused: tuple[str, ...] = ()
    fault: Fault | None = None
    gone: Answer | None = None


class PartName(msgspec.Struct, frozen=True, gc=False):
    """Identifies one part of a `queue://` step in one attempt of one life of a job."""

    uid: str
    execute_number: int
    request_counts: int
    step: int
    index: int


class QueueOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a queue leases the parts of a step (SPEC section 13). Times in ms.

    `specific`: the instances that may claim, none: all. `retries` is `maxUnexpectedRetries`, `delay` the
    pause before one. `queue_timeout`: how long a part waits for its first claim.
    """

    parallelism: int = 1
    specific: tuple[str, ...] = ()
    priority: int = 0
    lease: int = round(LEASE_SECONDS * SECOND)
    renew: int = 30_000
    retries: int = RETRIES
    delay: int = round(DELAY_SECONDS * SECOND)
    queue_timeout: int = 86_400_000


class QueuedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part on its way into a queue. Times are wall ms; `scheduled_at` is the planned moment.

    `job_id` and `tenant` are filled in by the turn. `published` (steady) is when its queue timeout begins;
    None: an earlier version published it, and it has none.
    """

    name: PartName
    queue: str
    total: int
    request: OutboundRequest
    options: QueueOptions
    scheduled_at: int
    created_at: int
    job_id: str = ""
    tenant: str = ""
    published: int | None = None


class LeaseChange(msgspec.Struct, frozen=True, gc=False):
    """An instance claimed a part, or (`is_lost`) did not renew its lease. `at` is steady.

    `serial` counts the changes of a part, from 1. The job takes each of them once.
    """

    serial: int
    instance: str
    at: int
    is_lost: bool = False


def as_said(end: PartEnd) -> PartEnd:
    """The end of a part as its instance sent it, without the instance and the time that the service adds.

    Two equal ones for one lease are one completion sent twice.
    """
    return msgspec.structs.replace(end, instance="", at=0)


def digest_said(end: PartEnd) -> bytes:
    """The digest of a completion, to detect a repetition without keeping its data."""
    return hashlib.sha256(msgspec.msgpack.encode(as_said(end))).digest()


def end_of_unclaimed(waited: int) -> PartEnd:
    """The end of a part that no instance has claimed within `waited` ms."""
    text = f"no instance claimed the work within queueTimeoutSeconds ({waited / 1000:g} s)"
    return PartEnd(error="queue_timeout", failure_type=FailureType.TIMEOUT, message=text)


def write_part_id(name: PartName) -> str:
    """The id of a part, unique in a store."""
    return f"{name.uid}-{name.execute_number}-{name.request_counts}-{name.step}-{name.index}"
