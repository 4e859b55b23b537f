"""Renders a target into the request to send, with the same bytes every time (SPEC section 4)."""

import re
from collections.abc import Callable
from typing import final
from urllib.parse import urlencode

import msgspec

from scheduler_service.domain.document import Context, Head, Kept, Open
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.domain.secret_places import (
    IN_FORM,
    IN_JSON_IN_FORM,
    IN_TEXT,
    rewrite_places,
    write_place,
)
from scheduler_service.domain.texts import scrub
from scheduler_service.domain.tracing import SpanPlace, is_sampled, span_of, tail_of, trace_in, trace_of
from scheduler_service.domain.wire import AtSend, FaultKind, Headers, OutboundRequest
from scheduler_service.engine.decision import SMALL_BYTES
from scheduler_service.engine.definition_checks import OWN, OWN_BEHIND
from scheduler_service.engine.program import Prerendered, Program, Target
from scheduler_service.engine.template_scope import scope_for, secret_mark
from scheduler_service.engine.turn_state import TurnState
from scheduler_service.language.json_values import as_json, as_json_by_member, as_text
from scheduler_service.language.rendering import Scope, Unrenderable, render_json, render_text, render_url
from scheduler_service.language.urls import ForeignOrigin, NotAUrl, names_service, resolve_whole

AS_JSON: Headers = (("Content-Type", "application/json"),)
FORM = "application/x-www-form-urlencoded"
NO_OWNER = "{serviceName} is the service that declares the job, but no service does; write the service's name"
EMPTY = Scope(system={}, environment={}, root={}, aliases={})
LONGEST = 8_192
"""Characters of a URL, and of a header's value, that are made with a template (SPEC section 4)."""
GROWN_BYTES = 16 << 20
"""By so much the bodies that one turn makes may be larger together than what they are made of: a template may
name a value five hundred times."""
JSON_TYPE = re.compile(r"\s*[a-z]+/(?:json|[^;\s]*\+json)\s*(?:;|$)")


@final
class Refused(msgspec.Struct, frozen=True):
    """The request cannot be made: `code` is the error code (`template` or `egress`)."""

    code: str
    message: str

    @property
    def failure_type(self) -> FailureType:
        """The failure type of the attempt."""
        return FailureType.EGRESS if self.code == FaultKind.EGRESS else FailureType.TEMPLATE


def make_request(
    turn: TurnState,
    program: Program,
    run: Open,
    target: Target,
    *,
    key: str,
    timeout: int,
    awaited: int = 0,
    extra: dict[str, object] | None = None,
    span: SpanPlace,
    trace: str = "",
) -> OutboundRequest | Refused:
    """The request of `target`, or why it cannot be made; times in ms. `span`: its place in the `trace`."""
    if target.refused:
        return Refused("template", target.refused)
    head, responses, at_send = turn.head, turn.contexts[run.execute_number].responses, None
    fixed, body = target.fixed, target.body
    # Most requests use nothing of the execution: no scope is made for them (saves 8 of 20 µs).
    names = fixed is None or (body is not None and not body.is_constant)
    scope = scope_for(program, head, run, responses, target, extra) if names else EMPTY
    if program.secrets:
        scope, at_send = _with_places(program, head, run, target, key, scope)
    place = fixed or _render(program, responses, target, scope)
    if type(place) is Refused:
        return place
    sent = _body(target, scope, place.headers, at_send)
    if type(sent) is Refused:
        return sent
    url = at_owner(place.url, head.owner, program.surroundings.tenant)
    if type(url) is Refused:
        return url
    content, kind = sent
    trace = trace or trace_in(run.trace) or trace_of(head.uid, run.execute_number)
    return OutboundRequest(  # by position
        target.method,
        url,
        (*own_headers(program, run, None if place.brings_key else key), *place.headers, *kind),
        content,
        timeout,
        target.redirects,
        trace,
        "",  # base
        awaited,
        span_tail(turn, program, run, span, trace),
        at_send,
        target.sign,
        program.surroundings.tenant,
    )


def _with_places(
    program: Program, head: Head, run: Open, target: Target, key: str, scope: Scope
) -> tuple[Scope, AtSend]:
    """The scope with the places of secrets, and what fills them when the request `key` is sent."""
    names = program.secrets
    if not target.secrets:
        return scope, AtSend(program.surroundings.tenant, "", names)
    mark = secret_mark(head, f"{key}:{run.request_counts}")
    places = {name: write_place(mark, number) for number, name in enumerate(names)}
    return msgspec.structs.replace(scope, secrets=places), AtSend(program.surroundings.tenant, mark, names)


def unmarked(program: Program) -> AtSend | None:
    """The same for a request without templates, whose answer may have values of the job's secrets."""
    return AtSend(program.surroundings.tenant, "", program.secrets) if program.secrets else None


def take_growth(turn: TurnState, run: Open, target: Target, request: OutboundRequest) -> int | Refused:
    """By how many bytes the body of `request` is larger than its template and what the execution has.

    Refused: there is no room for them.
    """
    body, template = request.body, target.body
    if body is None or len(body) <= SMALL_BYTES or template is None or template.is_constant:
        return 0
    kept = sum([len(one.body or b"") for one in turn.contexts[run.execute_number].responses])
    grown = max(0, len(body) - template.size - len(run.params) - kept)
    if not turn.lacks_room(grown) and turn.grown + grown <= GROWN_BYTES:
        turn.grown += grown
        turn.counts_more = turn.counts_more or grown > 0
        return grown
    message = (
        f"the body would have {len(body)} bytes, many times what it is made of, and what all executions keep "
        "leaves no room for it (limits.open_bytes); name less in the template, or let fewer run at one moment"
    )
    return Refused("template", message)


def span_tail(turn: TurnState, program: Program, run: Open, span: SpanPlace, trace: str) -> str:
    """`SPAN-FLAGS` of a call of the trace `trace`; empty, at no cost, where nobody records traces."""
    sampling, caller = program.surroundings.sampling, run.trace
    if sampling is None and not caller:
        return ""
    own = trace_of(turn.head.uid, run.execute_number) if caller else trace
    sampled = is_sampled(caller) if sampling is None else sampling.keeps(trace, caller)
    return tail_of(span_of(own, run.request_counts, span), sampled=sampled)


def limits_of(turn: TurnState, program: Program, context: Context, timeout: int) -> tuple[int, int]:
    """The HTTP timeout of a step's call, and how long its work is awaited, in ms.

    The timeout is cut to a second after the attempt's limit: the limit wins when both end. The work of an
    asynchronous job is awaited until that limit, other work as long as its answer; 0: until the timeout.
    """
    left = context.deadline - turn.now.steady
    if timeout < left:
        return timeout, left if program.asynchronous else 0
    return (left + SECOND, left) if left > 0 else (SECOND, 1)


def describe_limit(timeout: int, *, own: str | None) -> str:
    """What a call that ran out of time adds to its message: its limit in ms, and the field that gives it.

    `own` None: the setting does.
    """
    source = "the setting defaults.http_timeout_seconds" if own is None else f"the {own}"
    return f"; the limit of the call is {timeout / SECOND:g} s, {source}"


def sent_again(turn: TurnState, run: Open, request: OutboundRequest) -> OutboundRequest:
    """`request` as it is sent again: the same bytes, awaited for what is left of the attempt by now."""
    if not request.awaited:
        return request
    left = max(turn.contexts[run.execute_number].deadline - turn.now.steady, 1)
    awaited = left if turn.program_of(run).asynchronous else min(left, request.timeout)
    return msgspec.structs.replace(request, awaited=awaited)


def prerender(target: Target) -> Prerendered | None:
    """URL and headers of `target` if they have no template; None also if they are refused."""
    templates = [template for _, template in target.headers]
    if target.service_name is not None:
        templates.append(target.service_name)
    if not target.url.is_constant or not all(template.is_constant for template in templates):
        return None
    url = _named(target, target.url.text, EMPTY)
    found = url if isinstance(url, Refused) else _fixed(url, _headers(target, EMPTY))
    return None if isinstance(found, Refused) else found


def _render(
    program: Program, responses: tuple[Kept, ...], target: Target, scope: Scope
) -> Prerendered | Refused:
    url = _url(program, responses, target, scope)
    return url if isinstance(url, Refused) else _fixed(url, _headers(target, scope))


def _fixed(url: str, headers: Headers | Refused) -> Prerendered | Refused:
    if isinstance(headers, Refused):
        return headers
    return Prerendered(url, headers, any(name.lower() == "idempotency-key" for name, _ in headers))


def _url(program: Program, responses: tuple[Kept, ...], target: Target, scope: Scope) -> str | Refused:
    url = render_url(target.url, scope)
    if isinstance(url, Unrenderable):
        return _refuse("url", url)
    refused = _check_length("the url", url)
    if refused is not None:
        return refused
    whole = _whole(program, responses, target, url) if target.url.whole else url
    return whole if isinstance(whole, Refused) else _named(target, whole, scope)


def _named(target: Target, url: str, scope: Scope) -> str | Refused:
    """`url` through the service that the target names, if it names one."""
    if target.service_name is None:
        return url
    name = render_text(target.service_name, scope)
    if isinstance(name, Unrenderable):
        return _refuse("serviceName", name)
    if not names_service(name):
        return Refused("template", f"serviceName {name[:80]!r} is not a service name")
    return through_service(name, url)


NAMED = re.compile(r"^service://([^{}/?#]+)", re.IGNORECASE)
"""A URL of a service that is named, and neither the gateway nor the job's owner."""


def through_service(name: str, url: str) -> str:
    """The URL of a step with `serviceName`: the authority in `url` becomes the first path segment."""
    _, _, rest = url.partition(":")
    return f"service://{name}/{rest.lstrip('/')}"


def at_owner(url: str, owner: str, tenant: str = DEFAULT_TENANT) -> str | Refused:
    """`service:/path` and `service://{serviceName}/path` of a job that the service `owner` declares.

    Without an owner (empty) they stay as they are and mean this scheduler (SPEC section 9). Behind the
    gateway `{serviceName}` is the owner's name, which the scheduler does not have. A service of another
    tenant than `default` is named as its jobs are (`domain.job_key`).
    """
    if url[:7].lower() != "service":  # both patterns begin like this, and few URLs do
        return url
    behind = OWN_BEHIND.match(url)
    if behind is not None:
        return f"{behind[1]}{owner}{url[behind.end() :]}" if owner else Refused("template", NO_OWNER)
    own = OWN.match(url) if owner else None
    found = url if own is None else f"service://{owner}{url[own.end() :]}"
    if tenant == DEFAULT_TENANT:
        return found
    return NAMED.sub(lambda named: f"service://{write_job_key(tenant, named[1])}", found, count=1)


def _whole(program: Program, responses: tuple[Kept, ...], target: Target, url: str) -> str | Refused:
    base = _base_of(program, responses, target)
    if base is None:
        return Refused("template", f"the url {url!r} is from no response, so its origin cannot be checked")
    return whole_url(program, url, base)


def whole_url(program: Program, url: str, base: str) -> str | Refused:
    """A whole URL from a response, checked against the address that answered (SPEC section 4)."""
    refused = _check_length("the url", url)
    if refused is not None:
        return refused
    resolved = resolve_whole(url, base=base, follow=program.surroundings.follow)
    if isinstance(resolved, NotAUrl):
        return Refused("template", resolved.message)
    if isinstance(resolved, ForeignOrigin):
        return Refused(FaultKind.EGRESS.value, resolved.message)
    return resolved.url


def _base_of(program: Program, responses: tuple[Kept, ...], target: Target) -> str | None:
    source = target.url.source
    if isinstance(source, str):
        named = [step.index for step in program.steps if step.resp_env_name == source]
        source = named[0] if named else None
    if source is None:
        source = len(responses) - 1
    return responses[source].url if 0 <= source < len(responses) else None


def _headers(target: Target, scope: Scope) -> Headers | Refused:
    headers = []
    for name, template in target.headers:
        value = render_text(template, scope)
        if isinstance(value, Unrenderable):
            return _refuse(f"header {name}", value)
        refused = None if template.is_constant else _check_length(f"the header {name}", value)
        if refused is not None:
            return refused
        headers.append((name, value))
    return tuple(headers)


def _check_length(what: str, text: str) -> Refused | None:
    """Refuses what an answer has made too long: it would be in the state and in the history as it is."""
    if len(text) <= LONGEST:
        return None
    return Refused("template", f"{what} has {len(text)} characters; {LONGEST} are allowed: send it in a body")


def _body(
    target: Target, scope: Scope, headers: Headers, at_send: AtSend | None
) -> tuple[bytes | None, Headers] | Refused:
    if target.body is None:
        return None, ()
    if target.body.is_constant and not headers:
        return target.body.encoded, AS_JSON
    rendered = render_json(target.body, scope)
    if type(rendered) is Unrenderable:
        return _refuse("body", rendered)
    mark = at_send.mark if at_send is not None and target.body.secrets else ""
    encode = as_json_by_member if scope.may_be_large else as_json
    return encode_body(rendered.value, headers, encode, mark=mark)


def encode_body(
    value: object, headers: Headers, encode: Callable[[object], bytes] = as_json, *, mark: str = ""
) -> tuple[bytes, Headers]:
    """The body as bytes, and the Content-Type to add if the step has none; `encode` makes JSON of a value.

    `mark` is that of places of secrets in it; empty: there are none.
    """
    kind = _content_type(headers) if headers else None
    if kind is None:
        return encode(value), AS_JSON
    if JSON_TYPE.match(kind):
        return encode(value), ()
    is_form = kind.startswith(FORM)
    if isinstance(value, str):
        value = rewrite_places(value, mark, IN_FORM if is_form else IN_TEXT)
        return value.encode("utf-8", "replace"), ()
    if is_form and isinstance(value, dict):
        return urlencode({scrub(name): _form_text(item, mark) for name, item in value.items()}).encode(), ()
    return encode(value), ()


def _form_text(item: object, mark: str) -> str:
    kind = IN_FORM if isinstance(item, str) else IN_JSON_IN_FORM
    return rewrite_places(scrub(as_text(item)), mark, kind)


def _content_type(headers: Headers) -> str | None:
    return next((text.lower() for name, text in headers if name.lower() == "content-type"), None)


FEW_NUMBERS = 256
"""Of these the headers are made once: most jobs run seldom, and each call in flight keeps its headers."""
_EXECUTE_NUMBER, _REQUEST_COUNT = "X-Scheduling-Execute-Number", "X-Scheduling-Request-Counts"
_EXECUTE_NUMBERS, _REQUEST_COUNTS = (
    tuple((name, str(number)) for number in range(FEW_NUMBERS)) for name in (_EXECUTE_NUMBER, _REQUEST_COUNT)
)


def own_headers(program: Program, run: Open, key: str | None) -> Headers:
    """The headers of every request; `key` None: the step has an `Idempotency-Key` of its own."""
    number, counts = run.execute_number, run.request_counts
    own: Headers = (
        ("X-Scheduling-Job-Id", program.job_id),
        _EXECUTE_NUMBERS[number] if number < FEW_NUMBERS else (_EXECUTE_NUMBER, str(number)),
        _REQUEST_COUNTS[counts] if counts < FEW_NUMBERS else (_REQUEST_COUNT, str(counts)),
        ("Idempotency-Key", key or ""),
    )
    if key is None:
        own = own[:-1]
    return (*own, ("X-Scheduled-At", rfc3339(run.planned_at))) if program.lead else own


def _refuse(field: str, cause: Unrenderable) -> Refused:
    return Refused("template", f"{field}: ${{{cause.expression}}}: {cause.message}")
