"""The state of a job: what `decide` reads and returns, and what the snapshot codec writes.

`Head` is durable at both qos before the first effect of an attempt; a `Context` only at qos 1 (SPEC
section 8). All of it is frozen: a turn makes a new one. Times named `*_at` are wall, `due` and `deadline`
are steady milliseconds.
"""

from typing import final

import msgspec

from scheduler_service.domain.execution import ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.step_parts import Part, PartEnd
from scheduler_service.domain.wire import Answer, Fault, Holder, OutboundRequest

HELD = 4_000_000_000_000
"""Later than any moment at which an attempt ends (steady ms)."""


class Cursor(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How far the firings of a timer are used up.

    `anchor`: the creation, update or restart from which delays, ttl and phases count (wall).
    `last`: the moment (without jitter) of the last planned firing; None: none yet.
    `used`: how many repeats of a `timing` are used up.
    Of a fixed delay: `ended`, the end of the latest execution (wall); `runs`: one has not ended yet.
    """

    anchor: int
    last: int | None = None
    used: int = 0
    ended: int | None = None
    runs: bool = False


class Counting(msgspec.Struct, frozen=True, gc=False):
    """A run of missed firings that is still being counted outside the turn.

    Without a count by `due` (steady) it is requested again: the process that counted may have ended.
    """

    first: int
    last: int
    revision: int
    reason: str
    due: int


class Open(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An execution that has not ended: `scheduled`, `enqueued`, `processing`, or `failed` before a retry.

    `revision` is the definition with which it started, 0 while it waits. `holder` is the process that runs
    it. `held`: a debug switch keeps it back. `queued`: it waits in the queue whatever the overlap policy.
    `trace` is the caller's context, to which its trace belongs (`tracing.read_traceparent`).
    """

    execute_number: int
    state: ExecutionState
    triggered_by: TriggeredBy
    planned_at: int
    created_at: int
    revision: int = 0
    qos: int = 0
    request_counts: int = 0
    attempts: int = 0
    started_at: int | None = None
    holder: Holder | None = None
    params: bytes = b"{}"
    from_step: int = 0
    replayed: tuple[bytes, ...] = ()
    held: bool = False
    queued: bool = False
    trace: str = ""


class Latest(msgspec.Struct, frozen=True, gc=False):
    """The newest execution of a job."""

    execute_number: int
    state: ExecutionState
    error: str | None = None


class Ended(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An ended attempt of an asynchronous job, kept to answer late feedback.

    `digest` is that of the deciding feedback: a repetition is answered 200 (SPEC section 5). If each part
    reported, the digests of all parts follow each other in their order.
    """

    request_counts: int
    execute_number: int
    digest: bytes = b""


class Head(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The counters, schedule and open executions of a job; small. `next_fire` follows from `cursor`.

    `failures`: so many executions in a row ended as terminated, while the definition has asked for it.
    `calendar`: the version of the timer's calendar from which it follows; 0: it has none.
    """

    uid: str
    key: bytes
    revision: int
    created_at: int
    updated_at: int
    cursor: Cursor
    next_fire: int | None = None
    active: bool = True
    execute_number: int = 0
    request_counts: int = 0
    missed: int = 0
    paused_at: int | None = None
    pause_reason: str | None = None
    opens: tuple[Open, ...] = ()
    counting: tuple[Counting, ...] = ()
    latest: Latest | None = None
    ended: tuple[Ended, ...] = ()
    owner: str = ""
    failures: int = 0
    calendar: int = 0


class Report(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A report by check or feedback, in the form of SPEC section 5. `body` is its JSON text."""

    status: str = ""
    error: str | None = None
    message: str | None = None
    progress: str | None = None
    body: bytes = b"{}"


class Phase(msgspec.Struct, frozen=True, gc=False, tag=True):
    """What an execution is doing; each phase has only its own data."""


@final
class Calling(Phase, frozen=True, omit_defaults=True):
    """Step `step` is in flight. `grown`: by so many bytes its body is larger than all that it was made of."""

    step: int
    request: OutboundRequest
    sent_at: int
    grown: int = 0


class CheckWaiting(Phase, frozen=True, omit_defaults=True):
    """The next check is sent at `due`, after `wait` ms in all (None: an earlier version did not keep it)."""

    due: int
    wait: int | None = None


@final
class Checking(Phase, frozen=True):
    """A check is in flight."""

    request: OutboundRequest
    sent_at: int


class FeedbackAwaited(Phase, frozen=True):
    """The chain has ended; the target will report."""


class Retrying(Phase, frozen=True, omit_defaults=True):
    """The next attempt starts at `due`, at step `from_step`; `wait` as in `CheckWaiting`."""

    due: int
    from_step: int = 0
    wait: int | None = None


class Resolving(Phase, frozen=True, omit_defaults=True):
    """Step `step` waits for an instance of `service`; `serial` names the search (SPEC section 13).

    `excluded` have refused the step in this attempt. `fault`: the last of them refused the connection.
    `gone`: the answer of the last one that does not know the job.
    """

    step: int
    service: str
    serial: int
    excluded: tuple[str, ...] = ()
    fault: Fault | None = None
    gone: Answer | None = None


class PartsOpen(Phase, frozen=True, omit_defaults=True):
    """The parts of step `step` are in flight to instances of `service`, as `route` chose them.

    `serial` is the last one used; `verdicts` are those that feedback gave for the parts of an asynchronous
    job.
    """

    step: int
    service: str
    route: str
    serial: int
    parts: tuple[Part, ...]
    verdicts: tuple[Report | None, ...] = ()


class PartsQueued(Phase, frozen=True, omit_defaults=True):
    """The parts of step `step` are in `queue` or at instances; `ends` has those that have ended.

    `claimed_at` (steady) is the first claim of any part; None: the limit of the attempt does not run yet.
    `acknowledged` and `holders` are by part, and empty before the first claim: the serial of its last lease
    change, and the instance that has it.
    """

    step: int
    queue: str
    url: str
    sent_at: int
    ends: tuple[PartEnd | None, ...]
    verdicts: tuple[Report | None, ...] = ()
    claimed_at: int | None = None
    acknowledged: tuple[int, ...] = ()
    holders: tuple[str, ...] = ()


class PartsAwaited(Phase, frozen=True):
    """The chain has ended; each part of its last step will report."""

    verdicts: tuple[Report | None, ...]


class InHand(msgspec.Struct, frozen=True, gc=False):
    """Who works on an attempt of an asynchronous job after step `step`: instances of `service`, one per part.

    Empty: the part is not watched, since it has ended or went to an address without heartbeats.
    """

    step: int
    service: str
    instances: tuple[str, ...]


class Kept(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A step's response, kept for later templates. `body` None: no template reads it."""

    status: int
    url: str
    body: bytes | None = None
    truncated: bool = False


class LastEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The last event that was notified: a final event repeats its `response` (SPEC section 7).

    `is_cut`: what is long in it is not kept.
    """

    http_status: str
    response: bytes
    is_cut: bool = False


class Context(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Everything that an execution needs to go on (the ExecutionContext of SPEC section 1).

    A `deadline` from `HELD` on: the time of its attempt stands still, with so much left as it is above that.
    `began_at` is when its attempt began (wall), `after` the `requestCounts` of the attempt before; 0: none,
    or an earlier version did not keep it. `sign`: the secret that signs requests to `location`; empty: none.
    """

    phase: Phase
    deadline: int
    responses: tuple[Kept, ...] = ()
    checks: int = 0
    failed_checks: int = 0
    location: str | None = None
    spent: tuple[int, ...] = ()
    retries: int = 0
    verdict: Report | None = None
    progress: str | None = None
    told: LastEvent | None = None
    seen: tuple[str, ...] = ()
    deliveries: int = 0
    failure: str | None = None
    failure_type: FailureType | None = None
    taken: tuple[InHand, ...] = ()
    began_at: int = 0
    after: int = 0
    sign: str = ""


class Document(msgspec.Struct, frozen=True, gc=False):
    """The whole state of a job: its head, and the contexts of live executions by `executeNumber`."""

    head: Head
    contexts: dict[int, Context] = {}
