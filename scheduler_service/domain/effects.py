"""Everything that a turn may ask the world for, after its commit."""

from typing import final

import msgspec

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.records import DeliveryTry
from scheduler_service.domain.wire import OutboundRequest, Token


class Effect(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all effects."""


@final
class Call(Effect, frozen=True):
    """Send `request`; deliver its outcome as `CallEnded(token, …)`, again and again until it is taken."""

    token: Token
    request: OutboundRequest


class Abandon(Effect, frozen=True):
    """Nobody awaits this call any more: stop it where it still runs."""

    token: Token


class ResolveInstances(Effect, frozen=True):
    """Find where a step of `service` goes; deliver it as `InstancesResolved(token, …)`.

    `route` None: what the service says. `tags` narrow the choice, `excluded` have refused already. `single`:
    one instance is wanted whatever the route, for a part that has lost its own. `key` is what `hash` sticks
    to, `seed` what chance is drawn from. Where all are full it waits, until it is abandoned.
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


class CallPart(Effect, frozen=True):
    """Send `request` to `instance` as soon as it has room; deliver the outcome as `CallEnded(token, …)`."""

    token: Token
    tenant: str
    service: str
    instance: str
    request: OutboundRequest


class AbandonPart(Effect, frozen=True):
    """Nobody awaits this call, or this search for an instance, any more."""

    token: Token


class MarkDraining(Effect, frozen=True):
    """An instance answered that it takes no more work."""

    tenant: str
    service: str
    instance: str


class PublishParts(Effect, frozen=True):
    """Put parts into their queue, in the turn's transaction; each end comes back as `PartEnded`."""

    parts: tuple[QueuedPart, ...]


class WithdrawParts(Effect, frozen=True):
    """Nobody awaits the parts of this attempt any more (0: of any attempt of the execution).

    Those that nobody has are removed; who works on one is told `cancelled` when the lease is renewed.
    """

    uid: str
    execute_number: int
    request_counts: int = 0


class ReconfigureParts(Effect, frozen=True):
    """The parts of a step have other options from their next claim on (SPEC section 13).

    Who works on one and is no longer named loses the lease.
    """

    name: PartName
    options: QueueOptions


QueueWrite = PublishParts | WithdrawParts | ReconfigureParts
"""What a turn writes into the queues, in its own transaction."""


class Inform(Effect, frozen=True):
    """Send `request` once and await nothing (cancelUrl)."""

    request: OutboundRequest


class CountMissed(Effect, frozen=True):
    """Count the planned moments from `first` to `last` in slices outside the turn (`MissedCounted`)."""

    first: int
    last: int
    revision: int


class Retire(Effect, frozen=True):
    """The job is destroyed: forget it."""


class Delivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """One notification on its way: a value of its own, stored beside the job.

    `request` is rendered; `due` (steady ms) is the moment of the next try, None when it does not wait for
    one. `ordinal` numbers the deliveries of one execution. `final` marks the last event of an execution.
    `job_id` is filled in by the turn. `state`: `pending`; `delivered`, `failed`, `superseded` or `dismissed`
    in the end; `outbox` where it failed and will be sent again. `past` holds the latest tries.
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


class Notify(Effect, frozen=True):
    """Hand `delivery` to the courier; a durable one lies in the turn's transaction as well."""

    delivery: Delivery
