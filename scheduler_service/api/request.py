"""One request on its way through the API, and the declaration of an operation."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope

from client_sdk.models import JOB_ID_FORM
from client_sdk.models.fields import INSTANCE_ID
from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.audit_writing import SAFE, AuditNote, Way, act_of, ask_in_tenant
from scheduler_service.api.bodies import (
    check_object,
    header,
    only_header,
    read_body,
    read_json_by_size,
    read_preferences,
)
from scheduler_service.api.definitions import Creator
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.parameters import (
    LARGEST,
    LONGEST_TEXT,
    Parameter,
    Values,
    check_length,
    read_integer,
)
from scheduler_service.api.request_room import BODIES_BUSY, WaitingLine, take_place, weigh
from scheduler_service.api.responses import ApiProblem, FoundFlaw, absent, invalid
from scheduler_service.domain.audit_acts import Act, ActKind
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.execution import parse_execution_id, write_execution_id
from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.tracing import read_traceparent
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.value_masks import NO_MASK, SecretMask
from scheduler_service.pacing.waiting_room import Place
from scheduler_service.persistence.common.pagination import read_cursor
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.state import Remembered
from scheduler_service.security.callers import Caller, Role
from scheduler_service.timing.preview import LANGUAGES

Handler = Callable[["ApiRequest"], Coroutine[Any, Any, Response]]
_STRONG_TAG = re.compile(r'"(0|[1-9][0-9]{0,17})"')
KEY_LENGTH = 255
DIGITS_OF_PART = 32
LONGEST_SCOPE = 300
"""What stores keep of a scope (`persistence.sql.job_tables`)."""
LONGEST_IN_PATH = 256
FORM_OF_ID = "letters, digits, '.', '_', ':' and '-', the first a letter or digit"
FORM_OF_NAME = "letters, digits, '.', '_' and '-', the first a letter or digit"
BEHIND = Problem(
    "",
    "history_behind",
    "the history could not be brought up to date: what happened last may be missing; ask again in a moment",
)
KINDS = {f"{kind.value}s": kind for kind in ActKind} | {"deliveries": ActKind.DELIVERY}
"""By the tag of an operation."""
_SERVICE = re.compile(SERVICE_NAME[1:-1])
_INSTANCE = re.compile(INSTANCE_ID[1:-1])


@dataclass(slots=True, kw_only=True)
class ApiRequest:
    """What the handler of an operation gets; `path` and `query` are the values of its parameters.

    `memory` is the place of its body in `limits.body_room`, to be left; None: it needs none. `operation` is
    the name of the operation; `is_audited`: its changes are written down. `note`: the line of the request
    itself, to which its handler adds by `tell_audit`; None: there is none. `when_read` is called when the
    body has come, for which its sender may have taken its time; None: nobody has to be known.
    """

    caller: Caller
    deps: ApiDependencies
    scope: Scope
    receive: Receive
    path: Mapping[str, str]
    query: Values
    memory: Place | None = None
    operation: str = ""
    is_audited: bool = False
    note: AuditNote | None = None
    when_read: "Callable[[ApiRequest], Awaitable[None]] | None" = None

    def act(
        self, detail: Mapping[str, object] | None = None, *, execute_number: int | None = None
    ) -> Act | None:
        """Who changes a job with this request, for its turn; None: the operation is not audited."""
        return act_of(self, detail, execute_number) if self.is_audited else None

    def tell_audit(self, **known: Any) -> None:
        """Sets members of the request's line in the audit, as `subject`; `changed` False: there is none."""
        for name, value in known.items() if self.note is not None else ():
            setattr(self.note, name, value)

    @property
    def secret_mask(self) -> SecretMask:
        """Hides the values of the secrets of the caller's tenant."""
        return self.deps.security.secret_masks.of_tenant(self.caller.tenant) or NO_MASK

    def shown(self, text: bytes) -> msgspec.Raw:
        """A definition, or an array of some, as the caller may see it: plain credentials are for editors."""
        may_edit = self.caller.role.includes(Role.EDITOR)
        return msgspec.Raw(text if may_edit else self.deps.security.masking.hide_in(text))

    async def ask_audit_of(self, tenant: str) -> None:
        """Before a thing of `tenant` is changed: its audit has a line, too. Raises StoreUnavailable."""
        if self.note is not None:
            await ask_in_tenant(self, self.note, tenant)

    @property
    def job_id(self) -> str:
        """`jobId` of the path. Raises ApiProblem (422) where it is not well formed."""
        return self._well_formed("jobId", JOB_ID_FORM, FORM_OF_ID)

    @property
    def job_key(self) -> str:
        """The key of the job that the path names, in the caller's tenant. Raises ApiProblem as `job_id`."""
        return write_job_key(self.caller.tenant, self.job_id)

    async def execution_id(self, given: str) -> str:
        """The executionId of `JOB#NUMBER` or `JOB#last`; any other text is one already (SPEC section 10).

        Numbers go on over the lives of a job; `last` is the newest execution of all, in whatever state.
        Raises ApiProblem (404), StoreUnavailable.
        """
        job_id, sign, number = given.rpartition("#")
        if not sign:
            return given
        if JOB_ID_FORM.fullmatch(job_id) is None:
            raise no_execution(given)
        tenant, key = self.caller.tenant, write_job_key(self.caller.tenant, job_id)
        if number == "last":
            if await self.catch_up(key):
                raise StoreUnavailable(BEHIND.message, is_public=True)
            newest = (
                await self.deps.history.executions(ExecutionQuery(tenant=tenant, job_id=key, limit=1))
            ).items
            if newest:
                return str(newest[0]["executionId"])
        elif parse_execution_id(f"{job_id}-{number}") is not None:
            uid = await self.deps.history.life_of(tenant, key, int(number))
            entry = await self.deps.catalogue.get(key) if uid is None else None
            if entry is not None and entry.tenant == tenant:
                uid = entry.uid  # the history may have it later
            if uid is not None:
                return write_execution_id(uid, int(number))
        raise no_execution(given)

    @property
    def service(self) -> str:
        """`name` of the path, a service's. Raises ApiProblem (422) where it is not well formed."""
        return self._well_formed("name", _SERVICE, FORM_OF_NAME)

    @property
    def instance_id(self) -> str:
        """`instanceId` of the path. Raises ApiProblem (422) where it is not well formed."""
        return self._well_formed("instanceId", _INSTANCE, FORM_OF_ID)

    async def disconnected(self) -> None:
        """Returns when the caller has gone, for a request whose body is read."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def watching(self) -> AbstractAsyncContextManager[None]:
        """What waits inside is refused (ApiProblem, 401) when the caller's key ends."""
        return self.deps.security.authentication.watching(self.caller)

    def number(self, name: str) -> int:
        """A number of the path. Raises ApiProblem (422)."""
        try:
            return read_integer(self.path[name], 0, LARGEST)
        except ValueError as error:
            raise invalid(f"/{name}", "invalid", f"{name} {self.path[name][:80]!r} {error}") from None

    def _well_formed(self, name: str, pattern: re.Pattern[str], form: str) -> str:
        value = self.path[name]
        if pattern.fullmatch(value) is None:
            message = f"{name} {value[:140]!r} is not well formed; use 1 to 128 of {form}"
            raise invalid(f"/{name}", "pattern", message)
        return value

    @property
    def trace(self) -> str:
        """The caller's context, as `tracing.read_traceparent` reads it; empty: none, or not a valid one."""
        return read_traceparent(header(self.scope, b"traceparent") or "")

    @property
    def language(self) -> str:
        """The language of words for people (`Accept-Language`): en or zh."""
        return preferred(header(self.scope, b"accept-language"))

    @property
    def creator(self) -> Creator:
        """The creator of the jobs for which the caller names none."""
        name = self.caller.service or self.caller.name
        options = self._options_of_owner()
        return Creator(name, name, self.caller.tenant, options=options, caller=self.caller)

    def _options_of_owner(self) -> bytes:
        """Those of the service whose key or header sends a definition; `read_owner` refuses a wrong one."""
        owner = self.caller.service or header(self.scope, b"x-service")
        service = self.deps.services.registry.find(self.caller.tenant, owner) if owner else None
        return b"" if service is None else service.options_of_jobs

    async def body(self, limit: int | None = None) -> bytes:
        """The raw body. Raises ApiProblem (400, 413, 415, 503); 401 and 404 as before it, if it came late."""
        most = self.deps.limits.body_bytes if limit is None else limit
        body = await read_body(self.scope, self.receive, most, self._make_room)
        if self.when_read is not None:
            await self.when_read(self)
        return body

    async def _make_room(self, size: int) -> None:
        weight = weigh(size)
        if weight:
            self.memory = await take_place(self.deps.limits.body_room, weight, BODIES_BUSY)

    async def json_object(self) -> tuple[bytes, dict[str, object]]:
        """The body, a JSON object; no body counts as `{}`. Raises ApiProblem (400, 413, 415, 422)."""
        raw = await self.body() or b"{}"
        value = await read_json_by_size(raw)
        if not isinstance(value, dict):
            raise invalid("", "type", "the body must be a JSON object")
        return raw, value

    async def json_text(self) -> bytes:
        """The body, checked as `json_object` does, for who needs no more than its text."""
        raw = await self.body() or b"{}"
        await check_object(raw)
        return raw

    def place(self, mark: str) -> str:
        """Where the page before ended, of the list with this `mark`; empty: begin. Raises CursorError."""
        cursor = self.query["cursor"]
        return "" if cursor is None else read_cursor(mark, cursor, str)

    async def catch_up(self, job_key: str | None = None) -> tuple[FoundFlaw, ...]:
        """Returns when the history has all that was recorded before, of the job or of all; mostly at once.

        Where that fails or takes longer than `flush_seconds`, the warning for the answer of what is written.
        """
        try:
            async with asyncio.timeout(self.deps.limits.flush_seconds):
                await self.deps.jobs.flush(job_key)
        except (StoreError, TimeoutError):
            return (BEHIND,)
        return ()

    @property
    def if_match(self) -> frozenset[int] | None:
        """The revisions in `If-Match`, compared strongly (RFC 9110, section 13.1.1); None: any revision.

        Weak tags, and tags that this API does not make, match no revision. Raises ApiProblem (422).
        """
        given = header(self.scope, b"if-match")
        check_length("If-Match", given or "", LONGEST_TEXT)
        if given is None or given.strip() == "*":
            return None
        tags = (_STRONG_TAG.fullmatch(tag.strip()) for tag in given.split(","))
        return frozenset(int(tag[1]) for tag in tags if tag is not None)

    def remembered(self, subject: str, raw: bytes) -> Remembered | None:
        """What to keep under the Idempotency-Key; None without one. Raises ApiProblem (400, 422)."""
        key = only_header(self.scope, b"idempotency-key")
        if key is None:
            return None
        if not 0 < len(key) <= KEY_LENGTH or not key.isprintable() or not key.isascii():
            message = f"use 1 to {KEY_LENGTH} printable ASCII characters as the key"
            raise invalid("/Idempotency-Key", "invalid", message)
        digest = sha256(self.scope["query_string"] + b"\n")
        digest.update(raw)
        scope = write_scope(self.caller, subject)
        return Remembered(scope, key, digest.digest(), b"", self.deps.clock.now().wall)

    async def run_once(
        self,
        subject: str,
        raw: bytes,
        work: Callable[[], Awaitable[object]],
        *,
        is_final: Callable[[object], bool] = lambda _: True,
    ) -> object:
        """The result of `work`, for JSON; under a known Idempotency-Key the result of the first request.

        Raises ApiProblem, StoreError. See `IdempotencyKeys.run_once`.
        """
        remembered = await work_by_size(len(raw), lambda: self.remembered(subject, raw))
        if remembered is None:
            return await work()
        self.tell_audit(changed=False)  # an answer that is known changes nothing

        async def work_and_tell() -> object:
            self.tell_audit(changed=True)
            return await work()

        return await self.deps.idempotency.run_once(remembered, work_and_tell, is_final)


@dataclass(frozen=True)
class PostedBody:
    """The body of an operation: a model of the wire format, or `dict`, and an example that is accepted."""

    model: Any
    example: object = None
    required: bool = False
    is_array: bool = False


class KeyScope(StrEnum):
    """A part of a tenant for which a key may be: a service with its jobs and queue, or jobs with labels."""

    SERVICE = "service"
    LABELS = "labels"


OF_SERVICES = frozenset({KeyScope.SERVICE})
OF_JOBS = frozenset(KeyScope)


@dataclass(frozen=True, kw_only=True)
class ApiOperation:
    """One method of one path: its handler, the role that it needs, and its description in OpenAPI.

    `route` is method and path, as in `GET /jobs/{jobId}`. `name` is the operation's id in OpenAPI. `data` is
    a model of the wire format, or `dict`; None: there is none. `success` and `statuses` are the statuses of
    success and of refusals that not every operation has.
    `is_open`: no key is needed, since the request has a token of its own or the answer is no secret.
    `of_platform`: it is about the whole service, which is for the tenant `default`; 404 for others.
    `scopes`: which keys for a part of a tenant may use it, each for its own part; it is 403 for others.
    `by_service`: it is the work of a service's processes; where callers need a key, that is a key of the
    service or the one of the settings, and 403 for other keys of whatever role.
    `media_type` is that of its answer; only JSON is in the envelope, of other ones `data` is a part.
    `audit` says how its changes are written down, `kind` what they are about; by default each operation that
    may change something is written down as its request.
    `is_busy`: its path is matched before those of other operations. `waits`: what is waited for before it
    takes its place in the line. `answer_line`: its answer may be
    longer than a MiB; few of those in one line are made at a time.
    """

    route: str
    handler: Handler
    role: Role
    name: str = ""
    tag: str = ""
    query: tuple[Parameter, ...] = ()
    headers: tuple[str, ...] = ()
    body: PostedBody | None = None
    data: Any = None
    success: tuple[int, ...] = (200,)
    statuses: tuple[int, ...] = ()
    is_open: bool = False
    of_platform: bool = False
    scopes: frozenset[KeyScope] = frozenset()
    by_service: bool = False
    is_busy: bool = False
    waits: Callable[["ApiRequest"], Awaitable[None]] | None = None
    answer_line: WaitingLine | None = None
    audit: Way | None = None
    kind: ActKind | None = None
    media_type: str = "application/json"

    @cached_property
    def method(self) -> str:
        """The HTTP method."""
        return self.route.partition(" ")[0]

    @cached_property
    def audit_way(self) -> Way:
        """How its changes are written down."""
        return self.audit or (Way.NONE if self.method in SAFE else Way.REQUEST)

    @cached_property
    def is_audited(self) -> bool:
        """Whether its changes are written down."""
        return self.audit_way is not Way.NONE

    @cached_property
    def has_note(self) -> bool:
        """Whether a request has a line of its own, beside those of turns."""
        return self.audit_way in (Way.REQUEST, Way.HANDLER)

    @cached_property
    def audit_kind(self) -> ActKind:
        """What its changes are about."""
        return self.kind or KINDS.get(self.tag, ActKind.OPERATION)

    @cached_property
    def path(self) -> str:
        """The path, parameters in braces."""
        return self.route.partition(" ")[2]

    @cached_property
    def summary(self) -> str:
        """The first line of the handler's docstring, which is its description."""
        return str(self.handler.__doc__).partition("\n")[0].rstrip(".")


class Routes:
    """The operations of a module, in their order, by default listed below `tag` in OpenAPI."""

    def __init__(self, tag: str) -> None:
        self.operations: list[ApiOperation] = []
        self._tag = tag

    def add(self, route: str, role: Role, **details: Any) -> Callable[[Handler], Handler]:
        """Adds the decorated handler; `details` are other fields of `ApiOperation`.

        By default the operation has the name of its handler, in camel case.
        """

        def declare(handler: Handler) -> Handler:
            first, *others = handler.__name__.split("_")
            known = {"tag": self._tag, "name": first + "".join(word.title() for word in others), **details}
            self.operations.append(ApiOperation(route=route, handler=handler, role=role, **known))
            return handler

        return declare


def no_execution(given: str) -> ApiProblem:
    """A 404 for an execution, named as it was asked for."""
    _, sign, number = given.rpartition("#")
    is_formed = sign and (number == "last" or number.isdigit())
    remedy = "" if is_formed else "; write its executionId, JOB#NUMBER or JOB#last"
    return absent("/executionId", f"there is no execution {given[:200]!r}{remedy}")


def write_scope(caller: Caller, subject: str) -> str:
    """In what an Idempotency-Key counts: for the requests about a subject of all who see the same.

    Those are the keys of the whole tenant, or for the same part of it: what one of them is answered may be
    more than another part may know. A new text, or another key for the same, repeats a request all the same.
    """
    owner = "" if caller.tenant == DEFAULT_TENANT else caller.tenant
    if caller.is_narrow:
        part = sha256("\n".join((caller.service or "", *sorted(caller.labels))).encode())
        owner = f"{owner}~{part.hexdigest()[:DIGITS_OF_PART]}"
    if not owner:
        return subject
    scope = f"{owner}|{subject}"
    return scope if len(scope) <= LONGEST_SCOPE else f"{owner}|{sha256(subject.encode()).hexdigest()}"


def preferred(header: str | None) -> str:
    """The one of `LANGUAGES` that `header`, an `Accept-Language`, likes best; its first where none fits."""
    best, liked = next(iter(LANGUAGES)), 0.0
    for tag, quality in read_preferences(header).items():
        language = tag.partition("-")[0]
        if language in LANGUAGES and quality > liked:
            best, liked = language, quality
    return best
