"""TLS: the certificate of a service is checked, by the system's authorities and by those that are named."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_sdk import BlockingClient, Client
from client_sdk.client import Patience
from client_sdk.errors import Unreachable
from client_sdk.lite import LiteJob
from tests.certificate import Certificate, make_certificate, server_context, serving_tls

ONE_TRY = Patience(retries=0)


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return make_certificate(tmp_path)


@pytest.fixture
def url(certificate: Certificate) -> Iterator[str]:
    with serving_tls(certificate) as url:
        yield url


async def read(url: str, ca: str | None = None) -> None:
    """One call."""
    async with Client(url, ca=ca, patience=ONE_TRY) as client:
        assert [job async for job in client.jobs.list()] == []


async def test_an_unknown_authority_is_refused(certificate: Certificate, url: str) -> None:
    """Before anything is sent: a key never reaches a stranger."""
    served: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(await reader.read(1))
        writer.close()

    context = server_context(certificate)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await read(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert served == []
    # And so has a port that does not speak TLS
    with pytest.raises(Unreachable, match="use a name that its certificate has"):
        await read(url.replace("127.0.0.1", "localhost"), str(certificate.path))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        with pytest.raises(Unreachable, match="does it speak http instead of https"):
            await read(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_a_private_authority_is_named(
    url: str, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an argument, or as OpenSSL has it in the environment; without it the message says what to do."""
    with pytest.raises(Unreachable) as refused:
        await read(url)
    said = "certificate verify failed: self-signed certificate: for a private authority, give the file of its"
    assert said in str(refused.value)
    assert "Client(url, ca=FILE) or SSL_CERT_FILE" in str(refused.value)
    await read(url, str(certificate.path))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
    await read(url)
    job = {"request": [{"method": "GET", "url": f"{url}/"}]}
    async with LiteJob(job) as lite:
        assert (await lite.run()).state == "succeeded"
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere.pem")
    with pytest.raises(Unreachable, match=r"SSL_CERT_FILE='/nowhere.pem' cannot be read"):
        await read(url)
    async with LiteJob(job) as lite:
        assert (await lite.run()).error == "500"
    async with LiteJob(job, ca=str(certificate.path)) as lite:
        assert (await lite.run()).state == "succeeded"
    # It is the same client
    with BlockingClient(url, ca=str(certificate.path)) as client:
        assert list(client.jobs.list()) == []
