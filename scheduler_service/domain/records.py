"""The records of a turn for the history. Inserted by (uid, sequence): a repetition does nothing.

Bodies are raw here; the turn masks and cuts them before anything is written (SPEC section 12). `trace` is
the caller's context, to which the trace of the execution belongs (`tracing.read_traceparent`); empty: none.
"""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.execution import (
    DeliveryState,
    ExecutionState,
    FailureType,
    FiringOutcome,
    TriggeredBy,
)
from scheduler_service.domain.secret_places import hide_places
from scheduler_service.domain.token_masks import MARK
from scheduler_service.domain.wire import Fault, Headers, OutboundRequest, Outcome


class Record(msgspec.Struct, frozen=True, gc=False, tag=True, omit_defaults=True):
    """The root of all records."""


class ExecutionRecord(Record, frozen=True):
    """The execution after the turn; the record with the highest sequence counts. Times are wall.

    `params` is the JSON text of its trigger parameters, None: the history does not keep them.
    `params_complete`: they are as they were sent, not masked, cut or left out.
    """

    execute_number: int
    revision: int
    state: ExecutionState
    triggered_by: TriggeredBy
    planned_at: int
    created_at: int
    started_at: int | None = None
    ended_at: int | None = None
    reason: str | None = None
    error: str | None = None
    failure_type: FailureType | None = None
    attempt_count: int = 0
    progress: str | None = None
    params: bytes | None = b"{}"
    params_complete: bool = True
    trace: str = ""


def without_params(record: ExecutionRecord) -> ExecutionRecord:
    """The execution without its parameters, for a history that does not keep them; empty ones stay."""
    if record.params in (None, b"{}"):
        return record
    return msgspec.structs.replace(record, params=None, params_complete=False)


class AttemptStarted(Record, frozen=True):
    """An attempt began."""

    execute_number: int
    request_counts: int
    at: int
    reason: str | None = None


class AttemptEnded(Record, frozen=True):
    """An attempt ended; `error` None: it succeeded. `retry_in` is the wait in ms before a retry.

    `began_at` and `after` are those of the context.
    """

    execute_number: int
    request_counts: int
    at: int
    error: str | None = None
    failure_type: FailureType | None = None
    message: str | None = None
    retry_in: int | None = None
    began_at: int = 0
    after: int = 0
    trace: str = ""


class Exchange(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One request and its answer for the history. `status` None: no answer came; `fault` has the reason.

    `redacted`: something in it was masked or left out; `response_redacted`: the body of the answer was.
    """

    method: str
    url: str
    request_headers: Headers = ()
    request_body: bytes | None = None
    request_truncated: bool = False
    status: int | None = None
    fault: str | None = None
    response_headers: Headers = ()
    response_body: bytes | None = None
    response_truncated: bool = False
    sent_at: int = 0
    duration: int = 0
    redacted: bool = False
    response_redacted: bool = False


def exchange_of(request: OutboundRequest, outcome: Outcome, sent_at: int) -> Exchange:
    """What came of `request`, sent at `sent_at` (wall ms)."""
    if request.at_send is not None:
        request = hide_places(request)
    if type(outcome) is Fault:
        return Exchange(
            method=request.method,
            url=request.url,
            request_headers=request.headers,
            request_body=request.body,
            fault=outcome.message,
            sent_at=sent_at,
            duration=outcome.elapsed,
        )
    return Exchange(  # by position
        request.method,
        request.url,
        request.headers,
        request.body,
        False,  # request_truncated
        outcome.status,
        None,  # fault
        outcome.headers,
        outcome.body,
        outcome.truncated,
        sent_at,
        outcome.elapsed,
    )


def hide_in_answer(exchange: Exchange, tokens: Iterable[bytes]) -> Exchange:
    """The exchange without these feedback tokens in its answer; itself where there are none."""
    headers, body = exchange.response_headers, exchange.response_body
    for token in tokens:
        text = token.decode()
        if any(text in value for _, value in headers):
            headers = tuple([(name, value.replace(text, MARK)) for name, value in headers])
        if body and token in body:
            body = body.replace(token, MARK.encode())
    if headers is exchange.response_headers and body is exchange.response_body:
        return exchange
    return msgspec.structs.replace(
        exchange, response_headers=headers, response_body=body, redacted=True, response_redacted=True
    )


def hide_token(exchange: Exchange, token: str) -> Exchange:
    """The exchange without this feedback token, wherever it stands in it; itself where it does not.

    A target may hand it on alone, so that no pattern finds it in the requests of later steps.
    """
    exchange = hide_in_answer(exchange, (token.encode(),))
    url = exchange.url.replace(token, MARK)
    headers, body = exchange.request_headers, exchange.request_body
    if any(token in value for _, value in headers):
        headers = tuple([(name, value.replace(token, MARK)) for name, value in headers])
    if body and token.encode() in body:
        body = body.replace(token.encode(), MARK.encode())
    if url == exchange.url and headers is exchange.request_headers and body is exchange.request_body:
        return exchange
    return msgspec.structs.replace(
        exchange, url=url, request_headers=headers, request_body=body, redacted=True
    )


class StepEnded(Record, frozen=True):
    """A step of the chain was answered or failed. `error` names its failure, None where it succeeded.

    `part` is the index of the part that ended, None for the whole step; `instance` did the work.
    """

    execute_number: int
    request_counts: int
    index: int
    at: int
    exchange: Exchange
    resp_env_name: str | None = None
    error: str | None = None
    part: int | None = None
    instance: str | None = None
    trace: str = ""


class CheckEnded(Record, frozen=True):
    """A check was answered or failed; `status` is that of its report (empty: running, None: no report)."""

    execute_number: int
    request_counts: int
    serial: int
    at: int
    exchange: Exchange
    status: str | None = None
    progress: str | None = None
    error: str | None = None
    trace: str = ""


class FeedbackSeen(Record, frozen=True):
    """A feedback arrived; a `stale` one had no effect. `part` is the part that it names.

    `reporter` is the context of whoever sent it.
    """

    execute_number: int
    request_counts: int
    at: int
    body: bytes
    stale: bool = False
    truncated: bool = False
    part: int | None = None
    trace: str = ""
    reporter: str = ""


class Noted(Record, frozen=True):
    """A line of the execution's log that is in no other record."""

    execute_number: int
    at: int
    kind: str
    text: str
    request_counts: int | None = None
    step: int | None = None


REPLAY = "replay"
"""The kind of the note by which a replay names what it repeats."""


def write_replayed(execution_id: str, from_step: int) -> str:
    """The text of that note."""
    return f"of {execution_id} from step {from_step}"


def read_replayed(note: Noted) -> tuple[str, int] | None:
    """The executionId and the step of such a note; None: it is another one."""
    words = note.text.split(" ")
    if note.kind != REPLAY or len(words) != 5 or not words[4].isdecimal():
        return None
    return words[1], int(words[4])


class ResultKept(Record, frozen=True):
    """What an execution that succeeded was answered last, whole (`keepResult`).

    `status` None: it was reported by feedback. `content_type` is the target's own. `truncated`: it was longer
    than limits.response_bytes. `masked`: something in it is not as it was answered.
    """

    execute_number: int
    body: bytes
    status: int | None = None
    content_type: str = ""
    truncated: bool = False
    masked: bool = False


class LeaseChanged(Record, frozen=True):
    """A part of a step in a queue was claimed by `instance`, or its lease ended without a completion.

    `what`: `claimed`, `lost` (not renewed in time), `withdrawn` (an update names the instance no longer).
    `part` None: the step has one part.
    """

    execute_number: int
    request_counts: int
    index: int
    at: int
    instance: str
    what: str
    part: int | None = None


Detail = AttemptStarted | AttemptEnded | StepEnded | CheckEnded | FeedbackSeen | Noted | LeaseChanged
"""What happened within one execution; not searched by lists, and dropped first when space is short."""


class FiringRecord(Record, frozen=True):
    """What became of a planned firing, or of a run of missed ones (`planned_at` to `until`).

    `count` None: not counted yet; a later record of the same `planned_at` has it.
    """

    planned_at: int
    outcome: FiringOutcome
    until: int | None = None
    count: int | None = 1
    reason: str | None = None
    execute_number: int | None = None


class DeliveryTry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One try of a delivery: its HTTP status, or the fault instead of an answer. `duration` in ms.

    Both where the answer says that the message was not taken: `fault` has its words.
    """

    at: int
    status: int | None = None
    fault: str | None = None
    duration: int = 0

    @property
    def error(self) -> str:
        """The status that failed; where none did, what is told instead."""
        is_success = self.status is not None and 200 <= self.status < 300
        return str((self.fault if is_success else self.status) or self.fault or self.status)


class DeliveryRecord(Record, frozen=True):
    """The state of a delivery; the record with more tries counts, of two with as many the later one.

    `exchange` is that of the latest try; `next_try_at` (wall ms) is None where no try is planned. `tried` is
    how many tries there were in all; `tries` has the latest. `holder`: whose memory alone it is in while it
    is pending, as `write_holder`; empty: a store has it.
    """

    delivery_id: str
    execute_number: int
    request_counts: int
    event: str
    url: str
    state: DeliveryState
    name: str = ""
    created_at: int = 0
    tries: tuple[DeliveryTry, ...] = ()
    exchange: Exchange | None = None
    next_try_at: int | None = None
    tried: int = 0
    trace: str = ""
    holder: str = ""


class Audited(Record, frozen=True):
    """Somebody changed the job with this turn; a line of the audit, whatever the history keeps.

    `status` is that of the answer. `execute_number`: the execution that it started or changed. `revision` is
    the one that the job has after the turn, 0 where it is gone.
    """

    act: Act
    status: int
    execute_number: int | None = None
    revision: int = 0


AnyRecord = ExecutionRecord | FiringRecord | DeliveryRecord | Audited | ResultKept | Detail
"""Every kind of record, for encoding and decoding."""
