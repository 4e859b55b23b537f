"""Everything that can happen to a job. An event arrives, a turn is taken, effects leave."""

from typing import final

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.parts import Chosen, PartEnd, PartName
from scheduler_service.domain.wire import Holder, OutboundRequest, Outcome, Token


class Event(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The root of all events."""


class Created(Event, frozen=True):
    """A life begins: `uid` and the random `key` of its feedback tokens come from the host.

    The program of `revision` stands in the job's programs. Counters go on from an earlier life's. Where the
    job lives already, `fingerprint` tells whether this is the definition that it has. `owner` is the service
    that declares the job; empty: none does.
    """

    uid: str
    key: bytes
    revision: int = 1
    execute_number: int = 0
    request_counts: int = 0
    fingerprint: bytes = b""
    owner: str = ""


class Updated(Event, frozen=True):
    """The definition of `revision` (the turn numbers it) replaces the present one.

    `active` None leaves the pause as it is; `if_match` holds the revisions that the caller expects. `owner`
    None leaves the job to the service that declares it.
    """

    revision: int
    active: bool | None = None
    if_match: frozenset[int] | None = None
    owner: str | None = None


class Activated(Event, frozen=True):
    """The pause ends; `misfire` (skip, fire_once, fire_all) says what becomes of the pause's firings."""

    misfire: str = "skip"


class Paused(Event, frozen=True):
    """The job stops firing; with `drain` live executions end by themselves, else they are cancelled."""

    drain: bool = False
    reason: str = "paused"


@final
class Destroyed(Event, frozen=True):
    """The life ends; live executions end as cancelled, nothing is sent any more but cancelUrl."""


class AlarmRang(Event, frozen=True):
    """Look again: something may be due. Has no authority; too early, too late or twice does no harm."""


class Replay(msgspec.Struct, frozen=True, gc=False):
    """A trigger repeats an earlier execution from step `from_step`; `responses` are those before it."""

    execute_number: int
    from_step: int = 0
    responses: tuple[bytes, ...] = ()


class Triggered(Event, frozen=True):
    """One execution by hand. `params` is a JSON object's text, `planned_at` a moment (wall) or None: now."""

    params: bytes = b"{}"
    planned_at: int | None = None
    replay: Replay | None = None


class CallEnded(Event, frozen=True):
    """A request or check was answered, or failed to be."""

    token: Token
    outcome: Outcome


class InstancesResolved(Event, frozen=True):
    """Where a step, or one part of it, goes: `chosen` in the order of their ids, none where nobody is there.

    `spread`: each of them gets a part of its own (`broadcast`, `shard`); `route` is the policy that chose.
    """

    token: Token
    chosen: tuple[Chosen, ...]
    route: str = "random"


class PartEnded(Event, frozen=True):
    """A part of a `queue://` step ended: its instance completed it, or was lost too often.

    `request` is what those who claimed it were given.
    """

    name: PartName
    end: PartEnd
    request: OutboundRequest


class PartProgressed(Event, frozen=True):
    """Who works on a part of a `queue://` step says how far it is, while it renews its lease."""

    name: PartName
    progress: str | None = None
    message: str | None = None


class FeedbackArrived(Event, frozen=True):
    """The target reports on `request_counts`; `body` is the parsed report, `token` as given in the URL.

    `shard` is the part that reports, as given in the URL; None: the URL names none.
    """

    request_counts: int
    token: str
    body: object
    shard: int | None = None


class CancelRequested(Event, frozen=True):
    """Somebody ends an execution by hand."""

    execute_number: int
    reason: str = "cancelled"


class Released(Event, frozen=True):
    """Lets an execution go that a debug switch holds."""

    execute_number: int


class Resumed(Event, frozen=True):
    """The job was loaded afresh, and these are the calls that this process really has in flight.

    Open calls that are not among them are sent again (qos 1), or close their execution as lost (qos 0,
    when the holder was another process). What one of `away` holds, other nodes that live, is left alone:
    it will be handed over.
    """

    alive: tuple[Token, ...] = ()
    away: tuple[Holder, ...] = ()


class Adopted(Event, frozen=True):
    """Another node, `holder`, gives the job away: `document` is all that its memory knew of it.

    Its calls in `flight` go on there, and their answers are delivered as any other; so do those that nodes
    before it still have in flight, `beyond`.
    """

    holder: Holder
    flight: tuple[Token, ...] = ()
    document: Document | None = None
    beyond: tuple[tuple[Holder, tuple[Token, ...]], ...] = ()


class Unsent(Event, frozen=True):
    """The call of `token` was never made by `holder`, which stood still: who has the job makes it now."""

    token: Token
    holder: Holder


class MissedCounted(Event, frozen=True):
    """The walk over a run of missed firings ended: it has `count` moments (at most 10,000)."""

    planned_at: int
    count: int
