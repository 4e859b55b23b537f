"""Requests are signed just before they leave, each try and each hop anew (SPEC section 14)."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from client_sdk.errors import SignatureRefused
from client_sdk.signing import Verifier
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.ports.sending import NotSent, always
from scheduler_service.security.secrets import GivenSecrets
from scheduler_service.security.signing import RESTART_SECONDS, RequestSigner
from scheduler_service.transport.sender import SIGNED_AT_ONCE, HttpSender
from scheduler_service.transport.service_urls import InvocationDirectory
from tests.rows import each_row
from tests.static_directory import StaticDirectory
from tests.unit.client_sdk.signed import NEW, NOW, OLD
from tests.unit.transport.servers import OK, Peer, Server, Stage, crossing, head_of, keeping, repeating

SECRETS = {"default": {"hooks": (NEW,), "own": (OLD,)}, "other": {"mine": (NEW,)}}
KEY = ("Idempotency-Key", "life-1-0")


def signing(stage: Stage, **changes: Any) -> HttpSender:
    """A sender with these secrets."""
    signer = RequestSigner(secrets=GivenSecrets(SECRETS), md5_secret="old", clock=lambda: NOW)
    return stage.sender(signer=signer, **changes)


def request(url: str, sign: str = "hooks", **changes: Any) -> OutboundRequest:
    given: dict[str, Any] = {"method": "POST", "headers": (KEY,), "body": b'{"a":1}', "timeout": 30_000}
    return OutboundRequest(url=url, sign=sign, **(given | changes))


def verified(raw: bytes, *secrets: str) -> str | None:
    """The id that a request was signed with, as its receiver verifies it; None: it is not signed so."""
    body = raw.partition(b"\r\n\r\n")[2]
    try:
        return Verifier(*secrets, clock=lambda: NOW).verify(head_of(raw), body)
    except SignatureRefused:
        return None


def has_signature(server: Server) -> list[bool]:
    return [b"webhook-" in raw.lower() for raw in server.requests]


async def test_each_try_is_signed_with_a_time_of_its_own(stage: Stage) -> None:
    """Over new and kept connections; what names no secret has nothing of a signature."""
    server = await stage.server(repeating(OK))
    sender = signing(stage)
    for method in ("POST", "POST", "PUT", "GET"):
        body = None if method == "GET" else b'{"a":1}'
        assert isinstance(await sender.send(request(server.url, method=method, body=body)), Answer)
    assert [verified(raw, NEW) for raw in server.requests] == ["life-1-0"] * 4
    moments = [int(head_of(raw)["webhook-timestamp"]) for raw in server.requests]
    first = NOW + RESTART_SECONDS
    assert moments == [first, first + 1, first + 2, first + 3]
    assert isinstance(await sender.send(request(server.url, sign="")), Answer)
    assert has_signature(server)[-1] is False


async def test_a_repetition_on_a_new_connection_is_signed_anew(stage: Stage) -> None:
    """One that the target had closed before any of the first one came to it."""
    peers: list[Peer] = []
    server = await stage.server(keeping(peers, OK))
    sender = signing(stage)
    for may_go in (always, crossing(peers)):
        assert isinstance(await sender.send(request(server.url, method="PUT"), may_go), Answer)
    assert (server.connections, len(server.requests)) == (2, 2)
    receiver = Verifier(NEW, clock=lambda: NOW)
    assert [receiver.accept(head_of(raw), b'{"a":1}') for raw in server.requests] == ["life-1-0"] * 2
    moments = [int(head_of(raw)["webhook-timestamp"]) for raw in server.requests]
    assert moments[1] == moments[0] + 2  # that of the one that did not come lies between

    async def answer_one(peer: Peer) -> None:
        await peer.read()
        await peer.say(OK)
        await peer.read()

    # What came to the target is sent once, and so is what is of another method
    for method in ("PUT", "POST"):
        server = await stage.server(answer_one)
        outcomes = [type(await sender.send(request(server.url, method=method))) for _ in range(2)]
        assert (outcomes, len(server.requests)) == ([Answer, Fault], 2)


async def test_a_long_body_is_signed_as_it_is_sent(stage: Stage) -> None:
    """It is digested beside the loop, and sent apart from its head."""
    body = b"x" * (SIGNED_AT_ONCE + 1)

    async def take(peer: Peer) -> None:
        raw = await peer.read()
        while not raw.endswith(body):
            raw += await peer.reader.read(1 << 20)
        taken.append(raw)
        await peer.say(OK)

    taken: list[bytes] = []
    server = await stage.server(take)
    assert isinstance(await signing(stage).send(request(server.url, body=body)), Answer)
    assert [verified(raw, NEW) for raw in taken] == ["life-1-0"]


@each_row(
    ("sign", "tenant", "said"),
    [
        ("none", "default", "there is no 'none'"),
        ("mine", "default", "there is no 'mine'"),
        ("hooks", "other", "there is no 'hooks'"),
        ("mine", "other", None),
    ],
)
async def test_without_its_secret_nothing_is_sent(sign: str, tenant: str, said: str | None) -> None:
    """A secret is its tenant's own; the call fails by name."""
    async with AsyncExitStack() as stack:
        stage = Stage(stack)
        server = await stage.server(repeating(OK))
        outcome = await signing(stage).send(request(server.url, sign, tenant=tenant))
        if said is None:
            assert verified(server.requests[0], NEW) == "life-1-0"
            return
        assert isinstance(outcome, Fault)
        assert (outcome.kind, outcome.unsent, said in outcome.message) == (FaultKind.TEMPLATE, False, True)
        without = await stage.sender().send(request(server.url, sign, tenant=tenant))
        assert isinstance(without, Fault)
        assert without.kind is FaultKind.TEMPLATE
        assert (server.requests, server.connections) == ([], 0)


async def test_a_request_that_may_not_go_any_more_is_not_sent(stage: Stage) -> None:
    """Asked last, after it was signed; its connection is kept."""
    server = await stage.server(repeating(OK))
    sender = signing(stage)
    with pytest.raises(NotSent):
        await sender.send(request(server.url), lambda: False)
    assert isinstance(await sender.send(request(server.url)), Answer)
    assert (len(server.requests), server.connections) == (1, 1)


def redirecting(status: int, location: str) -> Any:
    """Redirects what is not for `/end`, which it answers."""

    async def handle(peer: Peer) -> None:
        while True:
            line = (await peer.read()).partition(b"\r\n")[0]
            away = f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n"
            await peer.say(OK if b" /end" in line else away.encode())

    return handle


async def test_a_redirect_is_signed_anew_at_home_alone(stage: Stage) -> None:
    """What follows 303 has no body; another origin gets no signature, nor does what it sends back."""
    for status, method in ((307, "POST"), (303, "GET")):
        server = await stage.server(redirecting(status, "/end"))
        await signing(stage).send(request(server.url, redirects=1))
        assert [verified(raw, NEW) for raw in server.requests] == ["life-1-0"] * 2
        assert server.requests[1].startswith(method.encode())
    home = await stage.server(redirecting(307, "/elsewhere"))
    away = await stage.server(redirecting(307, f"{home.url}/end"))
    start = await stage.server(redirecting(307, f"{away.url}/x"))
    await signing(stage).send(request(start.url, redirects=3))
    assert [has_signature(one) for one in (start, away, home)] == [[True], [False], [False]]


async def test_calls_of_a_service_are_signed_with_its_secret(stage: Stage) -> None:
    """Unless the request names its own; where an instance is chosen already, whoever chose it said."""
    server = await stage.server(repeating(OK))
    directory = StaticDirectory(addresses={"shop": server.url}, signing={"shop": "own"})
    sender = signing(stage, directory=directory)
    for sign, base in (("", ""), ("hooks", ""), ("", server.url), ("hooks", server.url)):
        await sender.send(request("service://shop/x", sign, base=base))
    found = [(verified(raw, OLD), verified(raw, NEW)) for raw in server.requests]
    one = "life-1-0"
    assert found == [(one, None), (None, one), (None, None), (None, one)]


async def test_what_the_sidecar_invokes_is_signed(stage: Stage) -> None:
    """It passes headers and body on as they are."""
    daprd = await stage.server(repeating(OK))
    known = StaticDirectory(addresses={}, signing={"shop": "own"})
    directory = InvocationDirectory(known=known, http_port=daprd.port, token="sesame")
    sender = signing(stage, directory=directory, sidecar=directory)
    await sender.send(request("service://shop/x", ""))
    await sender.send(request("service://bank/x", "hooks"))
    assert [verified(raw, OLD, NEW) for raw in daprd.requests] == ["life-1-0"] * 2
