"""A certificate of its own authority, made by openssl, and a service that has it."""

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.http_program import HttpProgram, Said


class Certificate(NamedTuple):
    """The files of the certificate, which is its own authority, and of its key."""

    path: Path
    key: Path


def make_certificate(folder: Path) -> Certificate:
    """One for good.test and 127.0.0.1, in `folder`. Skips the test where openssl is missing."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing: it makes the certificates")
    names = "subjectAltName=DNS:good.test,IP:127.0.0.1"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    command = ["openssl", "req", "-x509", *kind, "-subj", "/CN=good.test", "-addext", names, *files]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return Certificate(folder / "cert.pem", folder / "key.pem")


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """What a server with this certificate needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@contextmanager
def serving_tls(certificate: Certificate) -> Iterator[str]:
    """The https address of a scheduler without jobs that has this certificate."""
    body = b'{"resp_code": 200, "data": {"items": [], "nextCursor": null}}'
    with HttpProgram(lambda _: Said(body=body), context=server_context(certificate)) as program:
        yield program.url
