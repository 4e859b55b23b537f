"""TLS: the certificate is checked against the URL's host while we are connected to the judged address."""

import errno
import os
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from tests.unit.transport.servers import Server, Stage, TableResolver, no_descriptor, repeating

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def test_host_and_authority_are_checked(stage: Stage, certificate: tuple[Path, Path]) -> None:
    """The right name and the address pass; another name, or an unknown authority, is `connect`."""
    cert, _ = certificate
    server = await serve_tls(stage, certificate)
    resolver = TableResolver({"good.test": [["127.0.0.1"]], "bad.test": [["127.0.0.1"]]})
    sender = stage.sender(resolver=resolver, trust=lambda: ssl.create_default_context(cafile=str(cert)))
    for host in ("good.test", "good.test", "127.0.0.1"):
        outcome = await sender.send(
            OutboundRequest("GET", f"https://{host}:{server.port}/", (), timeout=5000)
        )
        assert isinstance(outcome, Answer), outcome
    assert server.connections == 2
    strangers = (
        (sender, "bad.test"),
        (stage.sender(resolver=resolver), "good.test"),
    )
    for stranger, host in strangers:
        outcome = await stranger.send(
            OutboundRequest("GET", f"https://{host}:{server.port}/", (), timeout=5000)
        )
        assert outcome.kind is FaultKind.CONNECT
        assert "certificate" in outcome.message
    assert len(server.requests) == 3


async def test_a_private_authority_is_named_in_the_environment(
    stage: Stage, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenSSL has it; without it the message says so, and does not ask whether the target is up."""
    server = await serve_tls(stage, certificate)
    refused = await stage.sender().send(get(server))
    assert "certificate verify failed: self-signed certificate" in refused.message
    assert "(PEM) by SSL_CERT_FILE" in refused.message
    assert "Is it up" not in refused.message
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert isinstance(await stage.sender().send(get(server)), Answer)


def read_nothing() -> ssl.SSLContext:
    """What OpenSSL makes, without an error, when it cannot open its file of authorities."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def read_in_vain() -> ssl.SSLContext:
    """What happens where the file is named."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("read_first", [read_nothing, read_in_vain])
async def test_authorities_that_cannot_be_read_are_read_again(
    stage: Stage, certificate: tuple[Path, Path], read_first: Callable[[], ssl.SSLContext]
) -> None:
    """For want of a descriptor: the call waits for one, and none fails for it (SPEC section 9)."""
    server = await serve_tls(stage, certificate)
    reads = 0
    with ExitStack() as shortage:

        def trust() -> ssl.SSLContext:
            nonlocal reads
            reads += 1
            if reads == 1:
                shortage.enter_context(no_descriptor())
                return read_first()
            return ssl.create_default_context(cafile=str(certificate[0]))

        sender = stage.sender(trust=trust, log=lambda event, **keys: shortage.close())
        for _ in range(2):
            outcome = await sender.send(get(server))
            assert isinstance(outcome, Answer), outcome
    assert reads == 2


async def test_a_trust_without_authorities_is_not_kept(stage: Stage, certificate: tuple[Path, Path]) -> None:
    """A descriptor may have become free before anybody could see that there was none."""
    server = await serve_tls(stage, certificate)
    contexts = [ssl.create_default_context(cafile=str(certificate[0])), read_nothing()]
    sender = stage.sender(trust=contexts.pop)
    assert isinstance(await sender.send(get(server)), Fault)
    assert isinstance(await sender.send(get(server)), Answer)


async def serve_tls(stage: Stage, certificate: tuple[Path, Path]) -> Server:
    """A target with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return await stage.server(repeating(OK), ssl=context)


def get(server: Server) -> OutboundRequest:
    """A request by its address."""
    return OutboundRequest("GET", f"https://127.0.0.1:{server.port}/", (), timeout=60_000)
