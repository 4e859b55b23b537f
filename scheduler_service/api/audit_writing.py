"""Who changes what: the act of a request, and the lines of changes that no turn of a job carries.

A change of a job is written down by the turn that makes it, so neither is without the other. All other
changes are written down as asked for before they are made, and with what became of them before they are
answered (decision 106).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.types import Scope

from scheduler_service.api.bodies import ClientGone
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.parameters import Values
from scheduler_service.api.responses import ENCODER, refusal_of
from scheduler_service.domain.audit_acts import Act, ActKind, ActOutcome, AuditEntry, name_in_audit
from scheduler_service.domain.token_masks import mask_tokens_in
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.security.callers import Caller

T = TypeVar("T")
ID_BYTES = 16
LONGEST_NAME = 256
LONGEST_ADDRESS = 64
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Way(Enum):
    """How an operation is audited."""

    NONE = "none"  # it changes nothing, or is the work of instances and targets
    TURN = "turn"  # by the turn of each job that it changes
    REQUEST = "request"  # asked for before its handler begins, completed after that
    HANDLER = "handler"  # its handler says when, by `audited`


class AuditedRequest(Protocol):
    """What of a request a line says."""

    @property
    def caller(self) -> Caller:
        """Who sends it."""

    @property
    def deps(self) -> ApiDependencies:
        """With the audit."""

    @property
    def scope(self) -> Scope:
        """From where."""

    @property
    def query(self) -> Values:
        """What the query says."""

    @property
    def operation(self) -> str:
        """For which operation."""


class AuditNote(msgspec.Struct):
    """What a handler adds to the line of its change while it makes it.

    `changed` False: nothing had to be changed, so there is no line. `tenant` has the thing, and a line of its
    own, `tenant_entry`, where it is another one than the caller's.
    """

    kind: ActKind
    subject: str = ""
    job_id: str = ""
    detail: dict[str, object] = {}
    items: Sequence[str] = ()
    changed: bool = True
    tenant: str = ""
    tenant_entry: str = ""


def act_of(
    request: AuditedRequest, detail: Mapping[str, object] | None = None, execute_number: int | None = None
) -> Act:
    """Who sends the request, from where and for what; `detail` joins what the query says."""
    caller, client = request.caller, request.scope.get("client")
    shown = dict(detail or {})
    if request.scope["query_string"]:
        given = {name: value for name, value in request.query.items() if value is not None}
        shown["given"] = {**given, **_given(shown)}
    if shown and (mask := request.deps.security.secret_masks.of_tenant(caller.tenant)) is not None:
        shown = mask.value(shown)
    return Act(
        request.operation,
        name_in_audit(caller.name, is_start_key=caller.is_operator)[:LONGEST_NAME],
        key_id=caller.key_id,
        address="" if client is None else str(client[0])[:LONGEST_ADDRESS],
        detail=mask_tokens_in(ENCODER.encode(shown)) if shown else b"",
        execute_number=execute_number,
        service=caller.service or "",
    )


async def audited(request: AuditedRequest, note: AuditNote, work: Callable[[], Awaitable[T]]) -> T:
    """The result of `work`, which is asked for in the audit first, and completed there before this returns.

    Raises StoreUnavailable, and nothing was done, where the audit cannot be written; else what `work` raises.
    What is cut off in between stays in the audit as asked for.
    """
    entry = _entry_of(request, note)
    await _ask(request, entry)
    try:
        result = await work()
    except ClientGone:  # before its body was whole
        await _complete(request, msgspec.structs.replace(note, changed=False), entry, ActOutcome.DONE, 0)
        raise
    except StoreError as error:
        is_unknown = isinstance(error, StoreUncertain)
        outcome = ActOutcome.UNKNOWN if is_unknown else ActOutcome.REFUSED
        await _complete(request, note, entry, outcome, HTTPStatus.SERVICE_UNAVAILABLE)
        raise
    except Exception as error:
        problem = refusal_of(error)
        if problem is not None:  # else it is a fault of the service, and nobody knows what it has changed
            await _complete(request, note, entry, ActOutcome.REFUSED, problem.status)
        raise
    await _complete(request, note, entry, ActOutcome.DONE, getattr(result, "status_code", HTTPStatus.OK))
    return result


async def ask_in_tenant(request: AuditedRequest, note: AuditNote, tenant: str) -> None:
    """Asks in the audit of `tenant`, too, whose thing is about to be changed; `audited` completes that line.

    Raises StoreUnavailable where it cannot be written: then nothing may be done.
    """
    if tenant != request.caller.tenant:
        note.tenant, note.tenant_entry = tenant, token_hex(ID_BYTES)
        await _ask(request, _entry_in_tenant(request, note))


async def note_sign_in(request: AuditedRequest, caller: Caller | None) -> None:
    """Somebody has signed in; None: was refused, under a name that nobody knows.

    Where it cannot be written the log says so, and it is as it was: a key needs no session.
    """
    known = request.caller if caller is None else caller
    signed = msgspec.structs.replace(act_of(request), who="", key_id="", service="")
    if caller is not None:
        who = name_in_audit(caller.name, is_start_key=caller.is_operator)[:LONGEST_NAME]
        signed = msgspec.structs.replace(signed, who=who, key_id=caller.key_id)
    entry = AuditEntry(
        entry_id=token_hex(ID_BYTES),
        tenant=known.tenant,
        at=request.deps.clock.now().wall,
        act=signed,
        kind=ActKind.SESSION,
        subject=signed.who,
        outcome=ActOutcome.REFUSED if caller is None else ActOutcome.DONE,
        status=HTTPStatus.UNAUTHORIZED if caller is None else HTTPStatus.OK,
    )
    try:
        await request.deps.security.audit.put(entry)
    except StoreError as error:
        _log_not_written(request, entry, entry.outcome, error)


async def _ask(request: AuditedRequest, entry: AuditEntry) -> None:
    try:
        await request.deps.security.audit.put(entry)
    except StoreError as error:
        text = f"the audit cannot be written, so nothing was done: {error}"
        raise StoreUnavailable(text, is_public=error.is_public) from error


async def _complete(
    request: AuditedRequest, note: AuditNote, entry: AuditEntry, outcome: ActOutcome, status: int
) -> None:
    """Writes what became of it; where that fails, the line says that it was asked for, and the log more."""
    ended = [_entry_of(request, note, entry.entry_id)]
    if note.tenant_entry:
        ended.append(_entry_in_tenant(request, note))
    for one in ended:
        try:
            if outcome is ActOutcome.DONE and not note.changed:
                await request.deps.security.audit.drop(one.entry_id)
            else:
                await request.deps.security.audit.put(
                    msgspec.structs.replace(one, at=entry.at, outcome=outcome, status=int(status))
                )
        except StoreError as error:
            _log_not_written(request, one, outcome, error)


def _log_not_written(
    request: AuditedRequest, entry: AuditEntry, outcome: ActOutcome, error: StoreError
) -> None:
    act = entry.act
    request.deps.shown.log(
        "audit_not_written",
        operation=act.operation,
        who=act.who,
        keyId=act.key_id,
        address=act.address,
        subject=entry.subject,
        outcome=outcome.value,
        error=str(error),
    )


def _entry_of(request: AuditedRequest, note: AuditNote, entry_id: str = "") -> AuditEntry:
    return AuditEntry(
        entry_id=entry_id or token_hex(ID_BYTES),
        tenant=request.caller.tenant,
        at=request.deps.clock.now().wall,
        act=act_of(request, note.detail),
        kind=note.kind,
        subject=note.subject,
        job_id=note.job_id,
        items=tuple(note.items),
    )


def _entry_in_tenant(request: AuditedRequest, note: AuditNote) -> AuditEntry:
    """The line in the audit of the thing's own tenant, which shows no value of its secrets either."""
    entry = _entry_of(request, note, note.tenant_entry)
    act, mask = entry.act, request.deps.security.secret_masks.of_tenant(note.tenant)
    if act.detail and mask is not None:
        shown = mask.value(msgspec.json.decode(act.detail))
        act = msgspec.structs.replace(act, detail=ENCODER.encode(shown))
    return msgspec.structs.replace(entry, tenant=note.tenant, act=act)


def _given(shown: Mapping[str, Any]) -> Mapping[str, object]:
    known: Mapping[str, object] = shown.get("given", {})
    return known
