"""Certificates with which calls show who they are, at a server that asks for them (SPEC section 9)."""

import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.transport.client_certificates import (
    ClientCertificate,
    ClientCertificates,
    read_origin,
)
from scheduler_service.transport.errors import PolicyError
from tests.certificate import Certificate, make_certificate, server_context
from tests.rows import each_row
from tests.unit.transport.servers import OK, Peer, Server, Stage, repeating


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate of the caller, which is its own authority."""
    return make_certificate(tmp_path_factory.mktemp("own"))


async def asking(stage: Stage, certificate: Certificate, known: Certificate, handler: Any = None) -> Server:
    """A server that takes connections of the one that it knows alone."""
    context = server_context(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(known.path)
    return await stage.server(handler or repeating(OK), ssl=context)


def showing(
    server: Server, shown: Certificate, ca: Path, log: Callable[..., None] = lambda *_, **__: None
) -> ClientCertificates:
    """What callers of this server show."""
    origin = f"https://127.0.0.1:{server.port}"
    one = ClientCertificate(origin, str(shown.path), str(shown.key), str(ca))
    return ClientCertificates([one], trust=ssl.create_default_context, log=log)


def get(server: Server, **changes: Any) -> OutboundRequest:
    return OutboundRequest("GET", f"https://127.0.0.1:{server.port}/", (), timeout=30_000, **changes)


async def test_a_target_that_asks_for_a_certificate_is_shown_it(
    stage: Stage, certificate: Certificate, own: Certificate
) -> None:
    """Its own authority is trusted there; without the certificate nobody is served."""
    server = await asking(stage, certificate, own)
    shown = showing(server, own, certificate.path)
    for _ in range(2):
        outcome = await stage.sender(certificates=shown).send(get(server))
        assert isinstance(outcome, Answer), outcome
    trust = ssl.create_default_context(cafile=str(certificate.path))
    refused = await stage.sender(trust=lambda: trust).send(get(server))
    assert isinstance(refused, Fault)
    assert refused.kind is FaultKind.CONNECT
    other = showing(server, certificate, certificate.path)
    assert isinstance(await stage.sender(certificates=other).send(get(server)), Fault)
    assert len(server.requests) == 2


async def test_another_origin_is_not_shown_it(
    stage: Stage, certificate: Certificate, own: Certificate
) -> None:
    """Not even where a redirect leads to it, and nobody is trusted there for the first one's authority."""

    async def redirect(peer: Peer) -> None:
        await peer.read()
        location = f"https://127.0.0.1:{other.port}/"
        await peer.say(f"HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode())
        await peer.reader.read()

    other = await asking(stage, certificate, own)
    server = await asking(stage, certificate, own, redirect)
    shown = showing(server, own, certificate.path)
    assert isinstance(await stage.sender(certificates=shown).send(get(server, redirects=1)), Fault)
    trust = ssl.create_default_context(cafile=str(certificate.path))
    sender = stage.sender(certificates=shown, trust=lambda: trust)
    assert isinstance(await sender.send(get(server, redirects=1)), Fault)
    assert (len(server.requests), other.requests) == (2, [])


async def test_changed_files_are_read_again(
    stage: Stage, certificate: Certificate, own: Certificate, tmp_path: Path
) -> None:
    """While they do not belong together, the certificate before goes on, with one line in the log."""
    server = await asking(stage, certificate, own)
    shown = Certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    put(shown, certificate)
    lines: list[dict[str, Any]] = []
    certificates = showing(server, shown, certificate.path, lambda _, **keys: lines.append(keys))

    async def send() -> Any:
        return await stage.sender(certificates=certificates).send(get(server))

    assert isinstance(await send(), Fault)
    put(Certificate(shown.path, tmp_path / "unused"), own)
    for _ in range(2):
        assert isinstance(await send(), Fault)
    assert [line["origin"] for line in lines] == [f"https://127.0.0.1:{server.port}"]
    put(shown, own)
    assert isinstance(await send(), Answer)
    shown.path.unlink()
    assert isinstance(await send(), Answer)
    assert len(lines) == 2


def put(shown: Certificate, given: Certificate) -> None:
    """Replaces the files, as whole ones."""
    for path, content in zip(shown, given, strict=True):
        beside = path.with_suffix(".new")
        beside.write_bytes(content.read_bytes())
        beside.replace(path)


@each_row(
    ("given", "origin"),
    [
        ("https://A.test", "https://a.test"),
        ("https://a.test:443/", "https://a.test"),
        ("https://a.test:8443", "https://a.test:8443"),
        ("http://a.test", None),
        ("https://a.test/x", None),
        ("https://a.test?x", None),
        ("https://u@a.test", None),
        ("https://*.a.test", None),
    ],
)
def test_an_origin_is_a_host_over_tls(given: str, origin: str | None) -> None:
    """As the pool of connections names it."""
    if origin is not None:
        assert read_origin(given) == origin
        return
    with pytest.raises(PolicyError):
        read_origin(given)


def test_what_cannot_be_read_is_said_at_the_start(own: Certificate, tmp_path: Path) -> None:
    """A missing file, a key with a passphrase, for which nobody is asked, and an origin that stands twice."""
    locked = tmp_path / "locked.pem"
    command = [
        "openssl",
        "pkey",
        "-in",
        str(own.key),
        "-aes256",
        "-passout",
        "pass:sesame",
        "-out",
        str(locked),
    ]
    subprocess.run(command, check=True, capture_output=True)
    one = ClientCertificate("https://a.test", str(own.path), str(own.key))
    for given, said in (
        ([ClientCertificate("https://a.test", str(own.path), str(tmp_path / "none"))], "No such file"),
        ([ClientCertificate("https://a.test", str(own.path), str(locked))], "without a passphrase"),
        ([one, ClientCertificate("https://A.test:443", str(own.path), str(own.key))], "two certificates"),
    ):
        with pytest.raises(PolicyError, match=said):
            ClientCertificates(given, trust=ssl.create_default_context, log=lambda *_, **__: None)
