"""A stage per test: servers and senders that end with it, on both event loops."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.unit.transport.servers import Stage


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


@pytest.fixture
async def stage(anyio_backend: Any) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        yield Stage(stack)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of its own authority for good.test and 127.0.0.1, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: it makes the certificates")
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=DNS:good.test,IP:127.0.0.1"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    command = ["openssl", "req", "-x509", *kind, "-subj", "/CN=good.test", "-addext", names, *files]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"
