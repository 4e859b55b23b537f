"""TLS: the certificate is checked against the URL's host while we are connected to the judged address."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from tests.unit.transport.servers import Stage, TableResolver, repeating

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl is missing: it makes the certificates"
    ),
]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of its own authority for good.test and 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=DNS:good.test,IP:127.0.0.1"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    command = ["openssl", "req", "-x509", *kind, "-subj", "/CN=good.test", "-addext", names, *files]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


async def test_host_and_authority_are_checked(stage: Stage, certificate: tuple[Path, Path]) -> None:
    """The right name and the address pass; another name, or an unknown authority, is `connect`."""
    cert, key = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await stage.server(repeating(OK), ssl=context)
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
        assert isinstance(outcome, Fault)
        assert outcome.kind is FaultKind.CONNECT
        assert "certificate" in outcome.message
    assert len(server.requests) == 3
