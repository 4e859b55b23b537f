"""TLS: the certificate of a service is checked."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from client_sdk.client.connection import Connection
from client_sdk.client.retrying import Patience
from client_sdk.errors import Unreachable

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        shutil.which("openssl") is None, reason="openssl is missing: it makes the certificates"
    ),
]


async def test_an_unknown_authority_is_refused(tmp_path: Path) -> None:
    """Before anything is sent: a key never reaches a stranger."""
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)  # noqa: ASYNC221
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    served: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(await reader.read(1))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        connection = Connection(
            url=f"https://127.0.0.1:{port}", key="k", timeout=5, patience=Patience(retries=0), transport=None
        )
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await connection.send("GET", "/jobs")
        await connection.close()
    assert served == []
