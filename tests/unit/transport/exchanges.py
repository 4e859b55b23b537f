"""Requests of the transport's tests, and the answers of their servers."""

from typing import Any

from scheduler_service.domain.wire import OutboundRequest

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(url: str, method: str = "POST", **changes: Any) -> OutboundRequest:
    given: dict[str, Any] = {"headers": (), "timeout": 5000}
    return OutboundRequest(method, url, **(given | changes))


def head_of(raw: bytes) -> dict[str, str]:
    """The headers of a request, names in lower case; the request line under ``."""
    lines = raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines[1:])
    return {"": lines[0]} | {name.lower(): value for name, _, value in pairs}
