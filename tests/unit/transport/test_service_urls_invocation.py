"""`service://` by Dapr's service invocation (SPEC section 9)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.transport.guard import EgressPolicy
from scheduler_service.transport.service_urls import InvocationDirectory, InvocationSender
from tests.rows import each_row
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import Stage, answering, repeating

UNDELIVERED = b'{"errorCode":"ERR_DIRECT_INVOKE","message":"failed to resolve address for nobody"}'


class Fixed:
    """Answers one thing."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.is_closed = False

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        return self.outcome

    async def close(self) -> None:
        self.is_closed = True


def test_what_settings_name_is_reached_there_all_else_by_the_sidecar() -> None:
    """A static address wins; every other name is an app id."""
    directory = InvocationDirectory(
        known=StaticDirectory(addresses={"billing": "http://10.0.0.7"}), http_port=3501
    )
    assert directory.address("billing") == "http://10.0.0.7"
    assert directory.address("orders") == "http://127.0.0.1:3501/v1.0/invoke/orders/method"


async def test_what_was_not_delivered_is_no_answer() -> None:
    """The sidecar's own 500 is a connection failure."""
    sender = InvocationSender(sender=Fixed(Answer(500, body=UNDELIVERED, elapsed=7)))
    outcome = await sender.send(OutboundRequest("POST", "service://nobody/path?secret=1", ()))
    assert isinstance(outcome, Fault)
    assert (outcome.kind, outcome.elapsed) == (FaultKind.CONNECT, 7)
    assert "secret" not in outcome.message


@each_row(
    ("url", "answer"),
    [
        ("service://orders/x", Answer(500, body=b'{"errorCode":"OTHER"}')),
        ("service://orders/x", Answer(500, body=b"not JSON")),
        ("service://orders/x", Answer(404, body=UNDELIVERED)),
        ("http://orders.test/x", Answer(500, body=UNDELIVERED)),
    ],
)
async def test_an_answer_of_the_target_passes(url: str, answer: Answer) -> None:
    """Status and body as they came, an error of the target too."""
    fixed = Fixed(answer)
    sender = InvocationSender(sender=fixed)
    assert await sender.send(OutboundRequest("POST", url, ())) is answer
    await sender.close()
    assert fixed.is_closed


WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
HEADER = b"dapr-api-token"


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Servers and senders of one test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


def behind(http_port: int, known: dict[str, str] | None = None) -> InvocationDirectory:
    """Services behind a sidecar whose API wants a token."""
    return InvocationDirectory(
        known=StaticDirectory(addresses=known or {}), http_port=http_port, token="sesame"
    )


async def test_the_sidecar_is_shown_its_token(stage: Stage) -> None:
    """Once: a token of the step's own headers would be taken for it."""
    daprd = await stage.server(repeating(WELL))
    directory = behind(daprd.port)
    sender = stage.sender(directory=directory, sidecar=directory)
    for base in ("", directory.address("orders") or ""):
        request = OutboundRequest("POST", "service://orders/x", (("Dapr-Api-Token", "mine"),), base=base)
        assert isinstance(await sender.send(request), Answer)
    for sent in daprd.requests:
        assert sent.startswith(b"POST /v1.0/invoke/orders/method/x HTTP/1.1\r\n")
        assert sent.lower().count(HEADER) == 1
        assert b"\r\ndapr-api-token: sesame\r\n" in sent


async def test_nobody_else_is_shown_the_token(stage: Stage) -> None:
    """Neither a service with an address of its own nor a plain URL, even one of the sidecar."""
    other = await stage.server(repeating(WELL))
    directory = behind(other.port, {"billing": other.url})
    sender = stage.sender(directory=directory, sidecar=directory)
    for url, base in (
        ("service://billing/x", ""),
        ("service://orders/x", f"{directory.base}/billing/method"),
        (f"{directory.base}/orders/method/x", ""),
    ):
        assert isinstance(await sender.send(OutboundRequest("GET", url, (), base=base)), Answer)
    assert len(other.requests) == 3
    assert not any(HEADER in sent.lower() for sent in other.requests)


async def test_a_service_cannot_lead_into_the_api_of_the_sidecar(stage: Stage) -> None:
    """Its redirects have that origin, which is not the service's: neither trust nor token go with them."""
    away = b"HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: /v1.0/state/statestore/key\r\n\r\n"
    daprd = await stage.server(answering(away, WELL))
    directory = behind(daprd.port)
    policy = EgressPolicy(allow=["127.0.0.0/8"], deny=[], sidecar_ports=(daprd.port,))
    sender = stage.sender(directory=directory, sidecar=directory, policy=policy)
    outcome = await sender.send(OutboundRequest("GET", "service://orders/x", (), redirects=1))
    assert isinstance(outcome, Fault)
    assert outcome.kind is FaultKind.EGRESS
    assert len(daprd.requests) == 1
