"""`${secrets.NAME}`: where it may stand, and that data never names a secret (SPEC sections 4 and 14)."""

import json
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.document import Calling
from scheduler_service.domain.effects import Inform
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded, StepEnded
from scheduler_service.domain.secret_places import Unfilled, fill_places
from scheduler_service.domain.turn_events import CallEnded, CancelRequested, Triggered
from scheduler_service.domain.wire import Fault, FaultKind, OutboundRequest
from scheduler_service.engine.document_bytes import encode
from scheduler_service.engine.program import Surroundings
from scheduler_service.engine.template_preview import TemplatePreview
from tests.rows import each_row
from tests.unit.engine.rig import Rig, program, started

URL = "http://target.test/"
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
