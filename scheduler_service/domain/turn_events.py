"""The events that take a turn of a job; what callers are told of is in `public_events`."""

from typing import final

import msgspec

from scheduler_service.domain.registered_services import Loss
from scheduler_service.domain.step_parts import Chosen, LeaseChange, PartEnd, PartName
from scheduler_service.domain.wire import Holder, LastBegun, OutboundRequest, Outcome, Token


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all events."""


class Created(Event, frozen=True):
    """The job is created: `uid` and the random `key` of its feedback tokens come from the host.

    The program of `revision` is among the job's programs. Counters go on from those of an earlier life. If
    the job exists, `fingerprint` shows whether its definition is equal. `owner` is the service that declares
    or posts the job; empty: none. `restored`: the job lives, and its state was lost.
    """

    uid: str
    key: bytes
    revision: int = 1
    execute_number: int = 0
    request_counts: int = 0
    fingerprint: bytes = b""
    owner: str = ""
    restored: bool = False


class Updated(Event, frozen=True):
    """The definition of `revision` (numbered by the turn) replaces the current one.

    `active` and `owner` None: unchanged. `if_match` has the revisions that the caller accepts.
    `keeps_schedule`: at most `labels` and `disabled` differ, so that the plan stays as it is.
    """

    revision: int
    active: bool | None = None
    if_match: frozenset[int] | None = None
    owner: str | None = None
    keeps_schedule: bool = False


class Activated(Event, frozen=True):
    """The pause ends; `misfire` (skip, fire_once, fire_all) decides which of its firings are caught up.

    `if_match`: as that of `Updated`.
    """

    misfire: str = "skip"
    if_match: frozenset[int] | None = None


class Replanned(Event, frozen=True, omit_defaults=True):
    """What the timer followed from may have changed: a setting, the zones, the program, its calendar.

    `calendar`: that one is at this version, at least; a process that does not know it yet refuses.
    """

    calendar: int = 0


class Paused(Event, frozen=True):
    """The job stops firing; with `drain` live executions go on to their end, else they are cancelled.

    `if_match`: as that of `Updated`.
    """

    drain: bool = False
    reason: str = "paused"
    if_match: frozenset[int] | None = None


@final
class Destroyed(Event, frozen=True):
    """The job is destroyed; live executions end as cancelled, and only cancelUrl is still sent.

    `if_match`: as that of `Updated`.
    """

    if_match: frozenset[int] | None = None


class AlarmRang(Event, frozen=True):
    """Something may be due. Only a hint: an alarm too early, too late or twice does no harm."""


class Replay(msgspec.Struct, frozen=True, gc=False):
    """A trigger repeats an earlier execution from step `from_step`; `responses` are those before it.

    `execution_id` is that of the earlier one, of whatever life of the job; empty: it is not known.
    """

    execute_number: int
    from_step: int = 0
    responses: tuple[bytes, ...] = ()
    execution_id: str = ""


class Triggered(Event, frozen=True):
    """A manual execution. `params` is the text of a JSON object; `planned_at` a moment (wall), None: now.

    `trace` is the caller's context (`tracing.read_traceparent`), empty: none.
    """

    params: bytes = b"{}"
    planned_at: int | None = None
    replay: Replay | None = None
    trace: str = ""


class Backfilled(Event, frozen=True):
    """Past moments of the timer are run, in this order; each gets an execution of its own.

    `params` and `trace` are those of `Triggered`.
    """

    moments: tuple[int, ...]
    params: bytes = b"{}"
    trace: str = ""


class CallEnded(Event, frozen=True):
    """A request or check was answered, or got no answer."""

    token: Token
    outcome: Outcome


class InstancesResolved(Event, frozen=True):
    """The instances chosen for a step or one of its parts, in the order of their ids; none: none is free.

    `route` is the policy that chose; with `broadcast` and `shard` each instance gets a part of its own.
    `wait` (ms): there is none, and a search that waits for one ends after so long; 0: it would not wait.
    `paused`: the service is, so nothing was chosen.
    """

    token: Token
    chosen: tuple[Chosen, ...]
    route: str = "random"
    wait: int = 0
    paused: bool = False


class InstanceLost(Event, frozen=True):
    """An instance that has work of an attempt in hand is lost; `token` is that of `WatchInstance`."""

    token: Token
    loss: Loss


class PartEnded(Event, frozen=True):
    """A part of a `queue://` step ended: completed, lost too often, or claimed by nobody in time.

    `request` is the one that the instances got. `changes` are those that the job may not have taken yet.
    """

    name: PartName
    end: PartEnd
    request: OutboundRequest
    changes: tuple[LeaseChange, ...] = ()


class LeasesChanged(Event, frozen=True):
    """A part of a `queue://` step was claimed, or its lease was lost; `changes` are in order."""

    name: PartName
    changes: tuple[LeaseChange, ...]


class PartProgressed(Event, frozen=True):
    """The instance that works on a part of a `queue://` step reported progress with a renewal."""

    name: PartName
    progress: str | None = None
    message: str | None = None


class FeedbackArrived(Event, frozen=True):
    """The target reports on attempt `request_counts`; `body` is the parsed report.

    `token` and `shard`, the part that reports, are those of the URL; `shard` None: the URL has none.
    `trace` is the context of whoever reports (`tracing.read_traceparent`), empty: none.
    """

    request_counts: int
    token: str
    body: object
    shard: int | None = None
    trace: str = ""


class CancelRequested(Event, frozen=True):
    """An execution is cancelled by hand."""

    execute_number: int
    reason: str = "cancelled"


class Released(Event, frozen=True):
    """Releases an execution that a debug switch holds."""

    execute_number: int


class Resumed(Event, frozen=True):
    """The job was loaded again; `alive` are the calls that this process really has in flight.

    Other open calls are sent again (qos 1) or end their execution as lost (qos 0, if the holder was another
    process). Those of `last_begun` of which nothing was sent begin now. `gone` are calls that were in flight
    from a process that has died since it gave the job away: at qos 0 none of them is sent again.
    """

    alive: tuple[Token, ...] = ()
    last_begun: LastBegun | None = None
    gone: tuple[Token, ...] = ()


class HandedOver(Event, frozen=True):
    """This process gives the job away: whoever loads it next goes on with what it runs.

    So the contexts of its executions are durable from now on, at qos 0 as well, and nobody holds them. But
    for the executions in `unanswered`: a call of them is in flight, and its answer will not come. At qos 0 it
    must not be sent again.
    """

    unanswered: tuple[int, ...] = ()


class Unsent(Event, frozen=True):
    """The call of `token` was never sent by `holder`, which was suspended: the current node sends it."""

    token: Token
    holder: Holder


class MissedCounted(Event, frozen=True):
    """A run of missed firings was counted: it has `count` moments (at most 10,000)."""

    planned_at: int
    count: int


BEGINNING = (AlarmRang, Resumed, Triggered, Created, Updated, Activated, Replanned, Backfilled)
"""Events with which executions begin: their turns know what the tenant's limit leaves, and count for it."""
