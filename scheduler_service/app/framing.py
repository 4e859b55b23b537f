"""What is no HTTP/1.1, or could be read in two ways, and the answer to it (RFC 9112)."""

from collections.abc import Iterable
from http import HTTPStatus

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from scheduler_service.api.responses import ENCODER, refuse

Headers = list[tuple[bytes, bytes]]
_OF_UPGRADES = (b"connection", b"upgrade", b"http2-settings")


def check_framing(headers: Headers, version: str) -> None:
    """Raises ValueError for a head that another reader may understand in another way (RFC 9112)."""
    if version not in ("1.1", "1.0"):
        raise ValueError(f"the request line says HTTP/{version}; send HTTP/1.1")
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            raise ValueError(
                "send a body as it is, or chunked in HTTP/1.1: no other Transfer-Encoding is read"
            )
    if hosts > 1 or (not hosts and version == "1.1"):
        raise ValueError("send one Host header (RFC 9112, section 3.2)")


def write_head(method: bytes, url: bytes, headers: Headers, *, stays_open: bool) -> bytes:
    """The head of a request as it came, without its wish for another protocol."""
    lines = [method + b" " + url + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers if name not in _OF_UPGRADES]
    if not stays_open:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def explain(error: httptools.HttpParserError) -> str:
    """What is wrong, in the words of the parser or of `check_framing`."""
    return f"this is not HTTP/1.1: {error.__context__ or error}"[:200]


def write_refusal(
    status: HTTPStatus, code: str, message: str, further: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """A whole answer with a problem (RFC 9457), the last of its connection; it begins with `further`."""
    body = ENCODER.encode(refuse(status, "", code, message).body())
    head = [
        *further,
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    lines = (name + b": " + value + b"\r\n" for name, value in head)
    return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])
