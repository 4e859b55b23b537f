"""The effects of a turn, which the host starts after the commit."""

from typing import final

import msgspec

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.records import DeliveryTry
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest, Token


class Effect(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all effects."""


@final
class Call(Effect, frozen=True):
    """Send `request`; deliver its outcome as `CallEnded(token, …)` until the delivery succeeds."""

    token: Token
    request: OutboundRequest


class Abandon(Effect, frozen=True):
    """Stop this call if it is still in flight: its answer is no longer awaited."""

    token: Token


class ResolveInstances(Effect, frozen=True):
    """Choose instances of `service` for a step; deliver them as `InstancesResolved(token, …)`.

    `route` None: that of the service. `tags` narrow the choice; `excluded` have refused already. `single`:
    one instance, whatever the route, for a part that lost its own. `key` is the key of the route `hash`,
    `seed` that of random choices. If all instances are full, the choice waits until it is abandoned.
    `waits`: where there is no instance, it waits for one as long as `services.wait_seconds` says. `held`:
    while the service is paused, it waits; else that is the answer. `only`: no other instance, where one is
    named.
    """

    token: Token
    tenant: str
    service: str
    key: str
    seed: str
    route: str | None = None
    tags: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    single: bool = False
    waits: bool = False
    held: bool = False
    only: str = ""


class CallPart(Effect, frozen=True):
    """Send `request` to `instance` when it has capacity; deliver the outcome as `CallEnded(token, …)`."""

    token: Token
    tenant: str
    service: str
    instance: str
    request: OutboundRequest


class AbandonPart(Effect, frozen=True):
    """Stop this call to an instance, or this search for one: its result is no longer awaited."""

    token: Token


class MarkDraining(Effect, frozen=True):
    """An instance answered that it takes no more work."""

    tenant: str
    service: str
    instance: str


class MarkRefused(Effect, frozen=True):
    """An instance refused a connection: it gets nothing until its next heartbeat."""

    tenant: str
    service: str
    instance: str


class WatchInstance(Effect, frozen=True):
    """Deliver `InstanceLost(token)` when the instance, which has work in hand, is lost."""

    token: Token
    tenant: str
    service: str
    instance: str


class Unwatch(Effect, frozen=True):
    """Stop this watch: its work has ended."""

    token: Token


class PublishParts(Effect, frozen=True):
    """Put parts into their queue, in the turn's transaction; each end is delivered as `PartEnded`."""

    parts: tuple[QueuedPart, ...]


class WithdrawParts(Effect, frozen=True):
    """Withdraw the parts of this attempt (0: of all attempts of the execution).

    Unclaimed parts are removed; for a claimed one the next renewal of its lease answers `cancelled`.
    """

    uid: str
    execute_number: int
    request_counts: int = 0


class ReconfigureParts(Effect, frozen=True):
    """Change the options of a step's parts from their next claim on (SPEC section 13).

    An instance that works on a part and is no longer named loses its lease.
    """

    name: PartName
    options: QueueOptions


class AcceptChanges(Effect, frozen=True):
    """The job has taken the lease changes of a part up to `serial`, in this turn's transaction."""

    name: PartName
    serial: int


QueueWrite = PublishParts | WithdrawParts | ReconfigureParts | AcceptChanges
"""What a turn writes into the queues, in its transaction."""


def next_check(write: QueueWrite) -> int | None:
    """When queue timeouts must be checked after `write` (steady ms; 0: now); None: it brings none."""
    if isinstance(write, ReconfigureParts):
        return 0
    if not isinstance(write, PublishParts):
        return None
    ends = [part.published + part.options.queue_timeout for part in write.parts if part.published is not None]
    return min(ends, default=None)


class Inform(Effect, frozen=True):
    """Send `request` once, without waiting for an answer (cancelUrl)."""

    request: OutboundRequest


class CountMissed(Effect, frozen=True):
    """Count the planned moments from `first` to `last` in slices outside the turn (`MissedCounted`)."""

    first: int
    last: int
    revision: int


class ReportPause(Effect, frozen=True):
    """The job was paused by the answer to this execution: tell whoever reads the service's log."""

    reason: str
    execute_number: int


class Retire(Effect, frozen=True):
    """The job is destroyed: drop its state."""


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One notification on its way, stored beside the job.

    `request` is rendered; `due` (steady ms) is the moment of the next try, None when it does not wait for
    one. `ordinal` numbers the deliveries of one execution. `final` marks the last event of an execution.
    `job_id` is filled in by the turn. `detail` is the job's `historyDetail`. `trace` is the caller's
    context of the execution. `state`: `pending`; `delivered`, `failed`, `superseded` or `dismissed` in the
    end; `outbox` where it failed and will be sent again. `past` holds the latest tries. `is_body_stored`: the
    body of its request is in the store alone, where the delivery is never like this. `token` is the feedback
    token of the attempt where the request has it: nothing that is kept of the delivery shows it. `robot` is
    the alert whose chat robot takes it (`hosts.chat_robots`). `rule` has `successWhen`, `errorFrom` and
    `messageFrom` of its entry; empty: a 2xx alone counts.
    """

    delivery_id: str
    uid: str
    execute_number: int
    request_counts: int
    ordinal: int
    event: str
    request: OutboundRequest
    name: str = ""
    durable: bool = False
    outbox: bool = False
    final: bool = False
    created_at: int = 0
    tries: int = 0
    due: int | None = None
    state: DeliveryState = DeliveryState.PENDING
    job_id: str = ""
    past: tuple[DeliveryTry, ...] = ()
    tenant: str = "default"
    trace: str = ""
    detail: str | None = None
    is_body_stored: bool = False
    token: str = ""
    robot: str = ""
    rule: tuple[str, ...] = ()


class Notify(Effect, frozen=True):
    """Give `delivery` to the notification sender; a durable one is also in the turn's transaction."""

    delivery: Delivery
