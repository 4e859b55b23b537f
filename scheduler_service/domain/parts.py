"""The parts of a step: what goes to the instances of a service, and what they claim (SPEC section 13)."""

import hashlib

import msgspec

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.wire import OutboundRequest

BROADCAST, SHARD = "broadcast", "shard"
SPREAD = frozenset({BROADCAST, SHARD})
"""The policies under which every instance gets a part."""


class Chosen(msgspec.Struct, frozen=True, gc=False):
    """An instance to which a part goes; `address` is its base `http(s)://host[:port][/path]`."""

    instance: str
    address: str


class PartEnd(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a part ended; `error` None: it succeeded.

    `body` is its response as far as a later template refers to it. `dropped`: its instance takes no work any
    more, and in a broadcast nobody else has to do it; it counts neither as succeeded nor as failed.
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

    `serial` names its present call, or what looks for another instance: then `request` is None. Once it has
    ended only `end` is left. `refused` are the instances that were draining when they were asked.
    """

    index: int
    serial: int
    instance: str = ""
    request: OutboundRequest | None = None
    sent_at: int = 0
    end: PartEnd | None = None
    refused: tuple[str, ...] = ()


class PartName(msgspec.Struct, frozen=True, gc=False):
    """Names one part of a `queue://` step in one attempt of one life of a job."""

    uid: str
    execute_number: int
    request_counts: int
    step: int
    index: int


class QueueOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a queue hands out the parts of a step (SPEC section 13). Times in ms.

    `specific`: the instances that may claim, none: all. `retries` is `maxUnexpectedRetries`, `delay` the
    pause before one.
    """

    parallelism: int = 1
    specific: tuple[str, ...] = ()
    priority: int = 0
    lease: int = 60_000
    renew: int = 30_000
    retries: int = 3
    delay: int = 10_000


class QueuedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part on its way into a queue. Times are wall ms; `scheduled_at` is the planned moment.

    `job_id` and `tenant` are filled in by the turn.
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


def as_said(end: PartEnd) -> PartEnd:
    """What an instance said of the end of its part, without what the service adds: who it was, and when.

    Two completions of one lease that are equal in this are one completion that was sent twice.
    """
    return msgspec.structs.replace(end, instance="", at=0)


def digest_said(end: PartEnd) -> bytes:
    """Tells one completion from another without keeping its data."""
    return hashlib.sha256(msgspec.msgpack.encode(as_said(end))).digest()


def write_part_id(name: PartName) -> str:
    """The id of a part among all parts of a store."""
    return f"{name.uid}-{name.execute_number}-{name.request_counts}-{name.step}-{name.index}"
