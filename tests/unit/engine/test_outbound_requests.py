"""What goes out, compiled and rendered: URLs, headers, bodies, keys (SPEC sections 2, 4)."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler_service.domain.document import Calling
from scheduler_service.domain.effects import Inform
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded, StepEnded
from scheduler_service.domain.secret_places import Unfilled, fill_places
from scheduler_service.domain.turn_events import CallEnded, CancelRequested, Created, Triggered, Updated
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.engine.document_bytes import encode
from scheduler_service.engine.outbound_requests import Refused, at_owner, encode_body
from scheduler_service.engine.program import Surroundings
from scheduler_service.engine.template_preview import TemplatePreview
from tests.rows import each_row
from tests.unit.engine.rig import Rig, program, started

URL = "http://target.test/"


def sent(surroundings: Surroundings | None = None, *, params: bytes = b"{}", **members: Any) -> Rig:
    """A job whose first request has gone out."""
    rig = Rig(surroundings, **members).create()
    rig.deliver(Triggered(params=params))
    return rig


def test_outbound_headers() -> None:
    """Every request says what it belongs to; `X-Scheduled-At` only with a lead."""
    rig = sent(leadSeconds=1)
    names = ("Job-Id", "Execute-Number", "Request-Counts")
    assert [rig.header(f"X-Scheduling-{name}") for name in names] == ["job", "1", "1"]
    assert rig.header("X-Scheduled-At") == "2023-11-14T22:13:20.000Z"
    assert sent().header("X-Scheduled-At") is None
    assert rig.request.trace == sent().request.trace


@each_row(
    ("members", "awaited"),
    [
        ({"timeoutSeconds": 600}, 0),
        ({"timeoutSeconds": 600, "async": True}, 600_000),
        ({"timeoutSeconds": 5}, 5_000),
        ({"timeoutSeconds": 5, "async": True}, 5_000),
        ({"timeoutSeconds": 5, "request": [{"url": URL, "timeoutSeconds": 3}]}, 0),
    ],
)
def test_how_long_work_is_awaited(members: dict[str, Any], awaited: int) -> None:
    """As long as the answer, at most to the attempt's limit; asynchronous work to that limit."""
    assert sent(**members).request.awaited == awaited


@each_row("asynchronous", [False, True])
def test_a_further_step_is_awaited_for_what_is_left(asynchronous: bool) -> None:
    """The limit is that of the attempt."""
    rig = sent(**{"async": asynchronous}, timeoutSeconds=5, request=[{"url": URL}, {"url": URL}])
    rig.pass_time(2_000)
    rig.answer(200)
    assert rig.request.awaited == 3_000


def test_all_requests_of_an_execution_have_one_trace() -> None:
    """Its steps and its retries too; another execution has another one."""
    step = {"url": "http://target.test/", "body": {}}
    rig = sent(request=[step, step], retry=[{"errorEquals": "500", "intervalSeconds": 1}])
    traces = [rig.request.trace]
    rig.answer(200)
    traces.append(rig.request.trace)
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.header("X-Scheduling-Request-Counts") == "2"
    traces.append(rig.request.trace)
    assert len(set(traces)) == 1
    rig.answer(200)
    rig.answer(200)
    rig.deliver(Triggered())
    assert rig.request.trace not in traces
    # What an older version stored had none: the next step's is the execution's all the same
    step = {"url": "http://target.test/", "body": {}}
    rig = sent(request=[step, step])
    trace = rig.request.trace
    context = rig.document.contexts[1]
    assert isinstance(context.phase, Calling)
    bare = replace(context.phase, request=replace(context.phase.request, trace=""))
    rig.document = replace(rig.document, contexts={1: replace(context, phase=bare)})
    rig.answer(200)
    assert rig.request.trace == trace


@each_row(
    ("value", "kind", "content", "added"),
    [
        ({"a": 1}, None, b'{"a":1}', True),
        ("text", None, b'"text"', True),
        (None, None, b"null", True),
        ("text", "application/json; charset=utf-8", b'"text"', False),
        ("text", "application/vnd.x+json", b'"text"', False),
        ("text", "text/plain", b"text", False),
        ('{"a":1}\n', "application/x-ndjson", b'{"a":1}\n', False),
        ('{"a":1}', "application/jsonl", b'{"a":1}', False),
        ({"a": 1}, "text/plain", b'{"a":1}', False),
        (
            {"a b": "ü&", "n": 1, "l": [1]},
            "application/x-www-form-urlencoded",
            b"a+b=%C3%BC%26&n=1&l=%5B1%5D",
            False,
        ),
        ("a=1", "Application/X-WWW-Form-Urlencoded", b"a=1", False),
        ([1], "application/x-www-form-urlencoded", b"[1]", False),
        ({"a": "\ud800"}, "application/x-www-form-urlencoded", b"a=%EF%BF%BD", False),
        ("\ud800", "text/plain", b"?", False),
    ],
)
def test_bodies(value: object, kind: str | None, content: bytes, added: bool) -> None:
    """JSON unless Content-Type says otherwise: then a string as it is, an object as form data."""
    headers = () if kind is None else (("content-type", kind),)
    assert encode_body(value, headers) == (content, (("Content-Type", "application/json"),) if added else ())


def test_no_body_is_none() -> None:
    """Absent: no body, and no Content-Type either; null is a body."""
    rig = sent()
    assert rig.request.body is None
    assert rig.header("Content-Type") is None
    assert sent(request=[{"url": URL, "body": None}]).request.body == b"null"


@each_row(
    ("url", "service", "expected"),
    [
        ("http://first/second", "shop", "service://shop/first/second"),
        ("service:/path?a=1", "shop", "service://shop/path?a=1"),
        ("http://first/x", "${trigger.name}", "service://cart/first/x"),
        ("${BASE}/x", "shop", "service://shop/base.test/v1/x"),
    ],
)
def test_service_name(url: str, service: str, expected: str) -> None:
    """The authority in `url` is then the first path segment."""
    around = Surroundings(environment={"BASE": "http://base.test/v1"})
    rig = sent(around, params=b'{"name":"cart"}', request=[{"url": url, "serviceName": service}])
    assert rig.request.url == expected


@each_row("name", ["a/b", "a@b", "", ".."])
def test_a_value_names_a_service_and_nothing_else(name: str) -> None:
    """A value can never change host or path depth, also through `serviceName`."""
    step = {"url": "http://first/x", "serviceName": "${trigger.name}"}
    rig = sent(params=b'{"name":"%s"}' % name.encode(), request=[step])
    assert rig.execution(1).error == "template"


@each_row("field", ["url", "headers", "body", "serviceName"])
def test_what_finds_nothing_fails_with_template(field: str) -> None:
    """The attempt fails with the expression in its message, wherever that is used."""
    given: dict[str, Any] = {
        "url": {"url": URL + "${$.gone}"},
        "headers": {"url": URL, "headers": {"X": "${$.gone}"}},
        "body": {"url": URL, "body": ["${$.gone}"]},
        "serviceName": {"url": URL, "serviceName": "${$.gone}"},
    }
    rig = sent(request=[given[field]])
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("template", FailureType.TEMPLATE)
    name = "header X" if field == "headers" else field
    assert rig.record_of(AttemptEnded).message == f"step 0: {name}: ${{$.gone}}: finds nothing"


def test_a_header_takes_no_control_characters() -> None:
    """A value with one fails with `template`; a lone surrogate is replaced."""
    step = {"url": URL, "headers": {"X": "${trigger.a}"}}
    assert sent(params=b'{"a":"x\\r\\nY: z"}', request=[step]).execution(1).error == "template"
    assert sent(params=b'{"a":"\\ud800"}', request=[step]).header("X") == "\ufffd"


def test_a_whole_url_from_a_response() -> None:
    """It leads to the origin that answered, or to one that `egress.follow` lists; relative ones resolve."""
    steps = [{"url": URL + "a/b", "respEnvName": "A"}, {"url": URL + "c"}, {"url": "${A.next}"}]
    for given, follow, url, error in (
        ("http://target.test/n", frozenset[str](), "http://target.test/n", None),
        ("n?x=1", frozenset[str](), "http://target.test/a/n?x=1", None),
        ("http://other.test/n", frozenset({"http://other.test:80"}), "http://other.test/n", None),
        ("http://other.test/n", frozenset[str](), None, "egress"),
        ("no url", frozenset[str](), None, "template"),
        (7, frozenset[str](), None, "template"),
    ):
        rig = sent(Surroundings(follow=follow), request=steps)
        rig.answer(200, {"next": given})
        rig.answer(200)
        assert rig.execution(1).error == error
        assert error or rig.request.url == url
    # A member of the latest response is judged by that response's address, after redirects
    rig = sent(request=[{"url": URL}, {"url": "${$.next}"}])
    answer = Answer(200, body=b'{"next":"/x"}', url="http://moved.test/y")
    rig.deliver(CallEnded(rig.call.token, answer))
    assert rig.request.url == "http://moved.test/x"
    # `serviceName` holds for a whole URL as for any other, and a refused one stays refused
    steps = [{"url": URL}, {"url": "${$.next}", "serviceName": "shop"}]
    rig = sent(request=steps)
    rig.answer(200, {"next": "/x"})
    assert rig.request.url == "service://shop/target.test/x"
    other = sent(request=steps)
    other.answer(200, {"next": "http://other.test/"})
    assert other.execution(1).error == "egress"


@each_row("url", ["${$.next}", "${trigger.next}", "${responses[0].next}"])
def test_a_whole_url_comes_from_a_response(url: str) -> None:
    """The parameters of a trigger have no origin that could be followed."""
    rig = sent(params=b'{"next":"http://target.test/"}', request=[{"url": url}])
    assert rig.execution(1).error == "template"


def test_success_codes() -> None:
    """Integers and classes; a 3xx that is not followed fails with its status."""
    for codes, status, error in (
        (["2xx"], 299, None),
        (["2xx"], 301, "301"),
        ([404, "3xx"], 302, None),
        ([404, "3xx"], 404, None),
        ([404, "3xx"], 200, "200"),
    ):
        rig = sent(request=[{"url": URL, "successCodes": codes}])
        rig.answer(status)
        assert rig.execution(1).error == error
    # Redirects are the steps choice: not followed unless the step says so
    assert sent().request.redirects == 0
    assert sent(request=[{"url": URL, "followRedirects": 3}]).request.redirects == 3
    # Each call can be distinguished from the others
    rig = sent(cancelUrl={"url": URL + "stop", "method": "DELETE"})
    rig.deliver(CancelRequested(1))
    request = rig.of(Inform, rig.effects)[0].request
    assert request.method == "DELETE"
    assert ("Idempotency-Key", "uid-1-1-cancel") in request.headers


@each_row(("later", "error"), [({}, None), ({"body": "${x}"}, "response_too_large")])
def test_too_large_only_where_it_is_needed(later: dict[str, Any], error: str | None) -> None:
    """A response over the limit fails its step if a later one needs it; else it is cut in the log."""
    rig = sent(request=[{"url": URL}, {"url": URL, **later}])
    rig.deliver(CallEnded(rig.call.token, Answer(200, body=b'{"x":', truncated=True)))
    if error is None:
        rig.answer(200)
    assert rig.execution(1).error == error
    assert not error or rig.execution(1).failure_type is FailureType.TOO_LARGE


def test_the_limit_of_a_call() -> None:
    """Never longer than what is left of the attempt, whose limit wins when both end together."""
    assert sent(timeoutSeconds=100, request=[{"url": URL, "timeoutSeconds": 5}]).request.timeout == 5_000
    rig = sent(timeoutSeconds=10, request=[{"url": URL, "timeoutSeconds": 10}, {"url": URL}])
    assert rig.request.timeout > 10_000
    rig.pass_time(9_000)
    rig.answer(200)
    assert rig.request.timeout > 1_000
    rig.pass_time(1_000)
    assert rig.execution(1).failure_type is FailureType.TIMEOUT


@each_row(
    ("url", "reached"),
    [
        ("service:/main/api?a=1", "service://billing/main/api?a=1"),
        ("SERVICE:/main", "service://billing/main"),
        ("service://{serviceName}/main/api", "service://billing/main/api"),
        ("service://oa/main/api", "service://oa/main/api"),
        ("service://{serviceGateway}/oa/main", "service://{serviceGateway}/oa/main"),
        ("http://target.test/service:/x", "http://target.test/service:/x"),
        ("service://{serviceGateway}/{serviceName}x/main", "service://{serviceGateway}/{serviceName}x/main"),
        ("service://{serviceGateway}/oa/{serviceName}", "service://{serviceGateway}/oa/{serviceName}"),
    ],
)
def test_the_owner_of_a_job_is_what_service_path_means(url: str, reached: str) -> None:
    """`service:/path` and `{serviceName}`: the declaring service, else this scheduler (SPEC section 9)."""
    assert at_owner(url, "billing") == reached
    assert at_owner(url, "") == url


@each_row("rest", ["/main/api?a=1", "?a=1", ""])
def test_behind_the_gateway_the_owner_is_named(rest: str) -> None:
    """`{serviceName}` there is the owner's own name; a job without an owner has none (SPEC section 9)."""
    url = "service://{serviceGateway}/{serviceName}" + rest
    assert at_owner(url, "billing") == "service://{serviceGateway}/billing" + rest
    refused = at_owner(url, "")
    assert isinstance(refused, Refused)
    assert refused.code == "template"
    assert "but no service does" in refused.message


def test_a_job_without_owner_names_none_to_the_gateway() -> None:
    """One of an earlier version: the attempt fails before anything is sent (SPEC section 9)."""
    rig = Rig(request=[{"url": "service://{serviceGateway}/{serviceName}/x"}])
    rig.create(restored=True)
    rig.deliver(Triggered())
    assert rig.calls() == []
    assert rig.record_of(AttemptEnded).error == "template"
    declared = Rig(request=[{"url": "service://{serviceGateway}/{serviceName}/x"}])
    declared.deliver(Created("uid", b"key", owner="billing"))
    declared.deliver(Triggered())
    assert declared.request.url == "service://{serviceGateway}/billing/x"


def test_a_declared_job_calls_its_own_service() -> None:
    """Its steps, and what tells of it; who takes the job over is its owner from then on (SPEC section 9)."""
    rig = Rig(request=[{"url": "service:/run"}], notification=[{"url": "service://{serviceName}/told"}])
    rig.deliver(Created("uid", b"key", owner="billing"))
    rig.deliver(Triggered())
    assert rig.request.url == "service://billing/run"
    rig.answer(200)
    assert {one.request.url for one in rig.deliveries()} == {"service://billing/told"}
    rig.deliver(Updated(1, owner="shop"))
    rig.deliver(Triggered())
    assert rig.request.url == "service://shop/run"
    rig.deliver(Updated(1))
    assert rig.head.owner == "shop"


LONGEST = 8_192
BASE = "http://target.test/"
FIRST = {"url": BASE, "respEnvName": "A"}


def second(step: dict[str, object], said: str) -> Rig:
    """A job whose second step has a value of the first one's answer."""
    rig = started(**{"async": False}, request=[FIRST, step])
    rig.answer(200, {"value": said})
    return rig


def test_a_url_has_at_most_so_many_characters() -> None:
    """One more fails the attempt with `template`, and the message does not repeat it."""
    room = LONGEST - len(BASE)
    assert len(second({"url": BASE + "${A.value}"}, "x" * room).request.url) == LONGEST
    rig = second({"url": BASE + "${A.value}"}, "x" * (room + 1))
    ended = rig.record_of(AttemptEnded)
    assert (ended.error, ended.failure_type) == ("template", FailureType.TEMPLATE)
    assert ended.message is not None
    assert "8193" in ended.message
    assert len(ended.message) < 300
    # A header too: its name is in the message
    step = {"url": BASE, "headers": {"X-Given": "${A.value}"}}
    assert second(step, "x" * LONGEST).header("X-Given") == "x" * LONGEST
    rig = second(step, "x" * (LONGEST + 1))
    assert rig.record_of(AttemptEnded).error == "template"
    assert "X-Given" in str(rig.record_of(AttemptEnded).message)
    # What a definition says itself is as long as it likes: only its owner decides it
    url = BASE + "x" * (2 * LONGEST)
    assert second({"url": url}, "x").request.url == url


@each_row("url", [BASE + "x" * LONGEST, "/" + "x" * LONGEST])
def test_a_whole_url_from_an_answer_too(url: str) -> None:
    """Given as a whole, or as the `Location` of a 202."""
    rig = second({"url": "${A.value}"}, url)
    assert rig.record_of(AttemptEnded).error == "template"
    polling = started()
    polling.answer(202, headers={"location": url})
    assert polling.record_of(AttemptEnded).error == "template"
    assert len(str(polling.record_of(AttemptEnded).message)) < 300


def test_behind_a_service_name_an_authority_is_a_segment() -> None:
    """With `serviceName` the authority in `url` is the first path segment (SPEC section 4)."""
    assert program(request=[{"url": "http://first:99999/x", "serviceName": "shop"}]).steps
    # `system://NAME` is refused in every definition but the scheduler's own
    assert program(system=True, request=[{"url": "system://clean"}]).system


def kept(**members: Any) -> list[tuple[bool, bool]]:
    """(keeps, needed) of each step."""
    return [(step.keeps, step.needed) for step in program(**members).steps]


@each_row(
    ("members", "expected"),
    [
        ({"request": [{"url": URL}, {"url": URL}]}, [(False, False)] * 2),
        ({"request": [{"url": URL}, {"url": URL, "body": "${x}"}]}, [(True, True), (False, False)]),
        (
            {"request": [{"url": URL, "body": "${x}"}] * 3},
            [(True, True), (True, True), (False, False)],
        ),
        (
            {"request": [{"url": URL, "respEnvName": "A"}, {"url": URL}, {"url": URL, "body": "${A.x}"}]},
            [(True, True), (False, False), (False, False)],
        ),
        (
            {"request": [{"url": URL}, {"url": URL}, {"url": URL, "body": "${responses[0].x}"}]},
            [(True, True), (True, True), (False, False)],
        ),
        (
            {"request": [{"url": URL}, {"url": URL, "body": "${$.*}"}]},
            [(True, True), (False, False)],
        ),
        ({"request": [{"url": URL}, {"url": URL, "body": "${trigger.x}"}]}, [(False, False)] * 2),
        ({"notification": [{"url": URL, "body": "${x}"}]}, [(True, False)]),
        ({"cancelUrl": {"url": URL + "${x}"}}, [(True, False)]),
        ({"checkUrl": URL + "${x}", "async": True}, [(True, True)]),
        ({"checkUrl": URL + "${x}"}, [(False, False)]),
    ],
)
def test_which_responses_are_kept(members: dict[str, Any], expected: list[tuple[bool, bool]]) -> None:
    """Only what a later template may read is kept; only what a step or the check reads is needed."""
    assert kept(**members) == expected


def test_steps_with_equal_targets_are_told_apart() -> None:
    """The latest response is that of the step just before, though a later step looks the same."""
    middle, last = {"url": URL, "respEnvName": "B"}, {"url": URL, "body": "${x}"}
    marks = [(False, False), (True, True), (True, True), (False, False)]
    assert kept(request=[{"url": URL}, middle, last, last]) == marks


@each_row(
    ("step", "key"),
    [
        ({"url": URL}, "uid-1-0"),
        ({"url": URL + "${schedulingRequestCounts}"}, "uid-1-0-1"),
        ({"url": URL, "body": "${schedulingFeedbackUrl}"}, "uid-1-0-1"),
        ({"url": URL, "headers": {"X-F": "${schedulingFeedbackUrlInternal}"}}, "uid-1-0-1"),
        ({"url": "service:/x", "serviceName": "s${schedulingRequestCounts}"}, "uid-1-0-1"),
        ({"url": URL + "${schedulingExecuteNumber}"}, "uid-1-0"),
        ({"url": URL, "headers": {"idempotency-KEY": "own"}}, "own"),
    ],
)
def test_idempotency_key(step: dict[str, Any], key: str) -> None:
    """uid, executeNumber and step; the attempt where the templates name it; a step's own wins, once."""
    rig = Rig(request=[step]).triggered()
    names = [name.lower() for name, _ in rig.request.headers]
    assert names.count("idempotency-key") == 1
    assert rig.header("Idempotency-Key") == key


VALUES = {"TOKEN": "t0p-secret", "OTHER": "0ther-secret"}


def step(**members: Any) -> list[dict[str, Any]]:
    return [{"url": URL, **members}]


def triggered(params: Any = None, **members: Any) -> Rig:
    rig = Rig(**members).create()
    rig.deliver(Triggered(params=json.dumps(params or {}).encode()))
    return rig


def leaving(request: OutboundRequest) -> OutboundRequest:
    """The request with its secrets."""
    found = fill_places(request, VALUES.get)
    assert not isinstance(found, Unfilled), found.message
    return found


def test_a_request_has_its_secrets_when_it_is_sent_alone() -> None:
    """Neither the request that is stored nor the history has a byte of them."""
    rig = triggered(
        qos=1,
        request=step(
            url=f"{URL}?k=${{secrets.TOKEN}}",
            headers={"Authorization": "Bearer ${secrets.TOKEN}"},
            body={"a": ["${secrets.OTHER}", "x ${secrets.TOKEN}"]},
        ),
    )
    sent = leaving(rig.request)
    assert sent.url == f"{URL}?k=t0p-secret"
    assert ("Authorization", "Bearer t0p-secret") in sent.headers
    assert json.loads(sent.body or b"") == {"a": ["0ther-secret", "x t0p-secret"]}
    rig.answer(500)
    (exchange,) = [one.exchange for one in rig.of(StepEnded, rig.records)]
    assert exchange.url == f"{URL}?k=***"
    assert ("Authorization", "Bearer ***") in exchange.request_headers
    assert exchange.request_body == b'{"a":["***","x ***"]}'
    assert rig.document is not None
    for kept in (encode(rig.document), msgspec.msgpack.encode(rig.records)):
        assert b"t0p" not in bytes(kept)


DATA = {
    "a": "${secrets.TOKEN}",
    "b": "$${secrets.TOKEN}",
    "c": "secrets.TOKEN",
    "d": {"secrets": {"TOKEN": "of data"}},
}


def test_data_names_no_secret() -> None:
    """Text that looks like a template is data, wherever it comes from and however it is inserted."""
    rig = triggered(
        DATA,
        request=[
            {
                "url": f"{URL}?a=${{$.a}}",
                "headers": {"A": "${$.a}", "S": "${secrets.TOKEN}"},
                "body": {
                    "a": "${$.a}",
                    "b": "${b}",
                    "c": "${$.c}",
                    "all": "${trigger}|json",
                    "d": "${$.d.secrets.TOKEN}",
                },
            },
            {"url": URL, "body": {"a": "${$.a}", "all": "${responses[0]}|json", "s": "${secrets.TOKEN}"}},
        ],
    )
    sent = leaving(rig.request)
    assert "t0p" not in sent.url
    assert dict(sent.headers)["A"] == "${secrets.TOKEN}"
    body = json.loads(sent.body or b"")
    assert body == {"a": DATA["a"], "b": DATA["b"], "c": DATA["c"], "all": DATA, "d": "of data"}
    rig.answer(200, DATA)
    body = json.loads(leaving(rig.request).body or b"")
    assert body == {"a": DATA["a"], "all": DATA, "s": "t0p-secret"}


@each_row(("base", "is_sent"), [("http://target.test", True), ("http://target.test/#x", False)])
def test_behind_a_variable_a_secret_stands_in_the_query_alone(base: str, is_sent: bool) -> None:
    """Where it stands is known when the variable's value is."""
    around = Surroundings(environment={"BASE": base})
    rig = Rig(around, request=step(url="${BASE}/?k=${secrets.TOKEN}")).triggered()
    if is_sent:
        assert leaving(rig.request).url == f"{base}/?k=t0p-secret"
    else:
        assert (rig.execution(1).error, rig.calls()) == ("template", [])


def test_a_target_that_was_shown_a_place_can_name_none() -> None:
    """Not even the marks of earlier requests help: each request has another one."""
    rig = triggered(
        request=[*step(body="${secrets.TOKEN}"), *step(body={"x": "${$.x}", "s": "${secrets.TOKEN}"})]
    )
    known = json.loads(rig.request.body or b"")
    rig.answer(200, {"x": known})
    assert json.loads(leaving(rig.request).body or b"") == {"x": known, "s": "t0p-secret"}
    # After a crash, byte by byte as it is stored; a secret may have changed since
    rig = triggered(qos=1, request=step(headers={"A": "${secrets.TOKEN}"}))
    before = rig.request
    rig.restart()
    assert rig.request == before
    assert dict(leaving(rig.request).headers)["A"] == "t0p-secret"


def test_all_requests_of_a_job_may_have_secrets() -> None:
    """Checks, notifications and cancel calls as well as steps."""
    rig = started(
        checkUrl={"url": f"{URL}state?k=${{secrets.TOKEN}}", "headers": {"A": "${secrets.OTHER}"}},
        cancelUrl={"url": URL, "headers": {"A": "${secrets.TOKEN}"}},
        notification=[{"url": URL, "headers": {"A": "${secrets.TOKEN}"}, "body": {"s": "${secrets.OTHER}"}}],
    )
    rig.answer(200)
    rig.pass_time(1_000)
    check = leaving(rig.request)
    assert check.url == f"{URL}state?k=t0p-secret"
    assert dict(check.headers)["A"] == "0ther-secret"
    rig.deliver(CancelRequested(1))
    (cancel,) = [leaving(one.request) for one in rig.of(Inform, rig.effects)]
    assert dict(cancel.headers)["A"] == "t0p-secret"
    delivery = leaving(rig.deliveries()[-1].request)
    assert dict(delivery.headers)["A"] == "t0p-secret"
    assert json.loads(delivery.body or b"") == {"s": "0ther-secret"}


def test_a_missing_secret_fails_the_attempt_as_template() -> None:
    """By its name; a policy may name `template`."""
    rig = triggered(
        request=step(headers={"A": "${secrets.GONE}"}), retry=[{"errorEquals": "template", "maxAttempts": 1}]
    )
    found = fill_places(rig.request, VALUES.get)
    assert isinstance(found, Unfilled)
    rig.deliver(CallEnded(rig.call.token, Fault(FaultKind.TEMPLATE, found.message)))
    ended = rig.record_of(AttemptEnded)
    assert (ended.error, ended.failure_type) == ("template", FailureType.TEMPLATE)
    assert "${secrets.GONE}" in (ended.message or "")
    assert ended.retry_in is not None
    # Another check would miss it as well
    rig = started(checkUrl={"url": URL, "headers": {"A": "${secrets.GONE}"}})
    rig.answer(200)
    rig.pass_time(1_000)
    rig.fault(FaultKind.TEMPLATE, "header A: ${secrets.GONE}: there is no secret of that name")
    assert rig.record_of(AttemptEnded).error == "template"


@each_row(
    ("members", "pointer"),
    [
        ({"request": step(url="http://${secrets.HOST}/")}, "/request/0/url"),
        ({"request": step(url="${secrets.URL}")}, "/request/0/url"),
        ({"request": step(url="${secrets.SCHEME}://target.test/")}, "/request/0/url"),
        ({"request": step(url=f"{URL}${{secrets.PATH}}")}, "/request/0/url"),
        ({"request": step(url=f"{URL}a/${{secrets.PATH}}/b?x=1")}, "/request/0/url"),
        ({"request": step(url=f"{URL}?x=1#${{secrets.PART}}")}, "/request/0/url"),
        ({"request": step(url="${BASE}/${secrets.PATH}")}, "/request/0/url"),
        ({"request": step(serviceName="${secrets.NAME}")}, "/request/0/serviceName"),
        ({"request": step(body={"a": "${secrets.A}|json"})}, "/request/0/body/a"),
        ({"request": step(body="${secrets}")}, "/request/0/body"),
        ({"request": step(body="${secrets['A']}")}, "/request/0/body"),
        ({"request": step(body="${secrets.A.b}")}, "/request/0/body"),
        ({"request": step(respEnvName="secrets")}, "/request/0/respEnvName"),
        ({"async": True, "checkUrl": f"{URL}${{secrets.PATH}}"}, "/checkUrl/url"),
        ({"notification": [{"url": "http://${secrets.HOST}/"}]}, "/notification/0/url"),
    ],
)
def test_where_no_secret_can_be(members: dict[str, Any], pointer: str) -> None:
    """422 when it is posted: in a scheme, host or path, as JSON, as a name."""
    with pytest.raises(DefinitionError) as caught:
        program(Surroundings(environment={"BASE": "http://base.test"}), **members)
    assert [one.pointer for one in caught.value.problems] == [pointer]


def test_behind_a_base_of_the_environment() -> None:
    """A query that stands in the template is one, whatever the variable is."""
    rig = Rig(
        Surroundings(environment={"BASE": "http://base.test"}),
        request=step(url="${BASE}/p?k=${secrets.TOKEN}"),
    ).triggered()
    assert leaving(rig.request).url == "http://base.test/p?k=t0p-secret"
    # Its requests pass at no cost
    rig = triggered({"x": 1}, request=step(body="${$.x}"))
    assert rig.request.at_send is None
    assert isinstance(rig.context(1).phase, Calling)
    # `***` in its place, in each kind of template
    preview = TemplatePreview(root={}, surroundings=Surroundings(), now=0)
    assert preview.header("Bearer ${secrets.A}").value == "Bearer ***"
    assert preview.body({"a": "${secrets.A}"}).value == {"a": "***"}
    assert preview.url(f"{URL}?k=${{secrets.A}}").value == f"{URL}?k=***"


@each_row(
    ("kind", "body", "sent"),
    [
        (
            "application/x-www-form-urlencoded",
            {"k": "${secrets.NASTY}", "l": ["${secrets.NASTY}"]},
            b"k=a%26%22b&l=%5B%22a%26%5C%22b%22%5D",
        ),
        ("application/x-www-form-urlencoded", "k=${secrets.NASTY}", b"k=a%26%22b"),
        ("text/plain", "k ${secrets.NASTY}", b'k a&"b'),
        ("application/json", "k ${secrets.NASTY}", b'"k a&\\"b"'),
    ],
)
def test_the_type_of_a_body_says_how_a_value_is_written(kind: str, body: Any, sent: bytes) -> None:
    """As JSON, in a form, or as it is."""
    rig = triggered(request=step(headers={"Content-Type": kind}, body=body))
    found = fill_places(rig.request, lambda _: 'a&"b')
    assert isinstance(found, OutboundRequest)
    assert found.body == sent
