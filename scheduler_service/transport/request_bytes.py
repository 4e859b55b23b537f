"""A request as bytes; the head is checked, so that no value can inject a header or a second request."""

import re
from collections.abc import Iterator

import msgspec

from scheduler_service.domain.wire import Headers
from scheduler_service.transport.addresses import Target
from scheduler_service.transport.errors import ConnectFailed

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CONNECTION_HEADERS = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "keep-alive", "upgrade", "te"}
)
_COMMON = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"})
_WITH_LENGTH = frozenset({"POST", "PUT", "PATCH"})
_MAX_CACHED_NAMES = 1024


class Hop(msgspec.Struct, frozen=True, gc=False):
    """One exchange of a call: the first, or a redirect's. `by_sidecar`: this node's sidecar is called."""

    method: str
    target: Target
    headers: Headers
    body: bytes | None
    trusted: bool
    by_sidecar: bool = False


class RequestWriter:
    """Writes requests. `agent` is the User-Agent of requests without one; `spans` yields span ids."""

    def __init__(self, *, agent: str, spans: Iterator[str]) -> None:
        self._spans = spans
        self._names: dict[str, str] = {}
        self._defaults = {
            "user-agent": f"User-Agent: {agent}\r\n",
            "accept": "Accept: */*\r\n",
            "accept-encoding": "Accept-Encoding: identity\r\n",
        }
        self._all_defaults = "".join(self._defaults.values())

    def write(self, hop: Hop, trace: str, until: str, span: str = "") -> bytes:
        """The request's bytes; `until` is its deadline, `trace` and `span` are those of an OutboundRequest.

        Header values outside ASCII are sent as UTF-8.

        Raises ConnectFailed for a method, header name or value that HTTP cannot carry, and for headers that
        the connection itself sets.
        """
        if hop.method not in _COMMON and (not _TOKEN.fullmatch(hop.method) or hop.method == "CONNECT"):
            raise ConnectFailed(f"The method {hop.method[:40]!r} cannot be sent: use another one.")
        lines = [f"{hop.method} {hop.target.path} HTTP/1.1\r\nHost: {hop.target.site.authority}\r\n"]
        present = self._add(lines, hop.headers)
        if present.isdisjoint(self._defaults):
            lines.append(self._all_defaults)
        else:
            lines += [line for name, line in self._defaults.items() if name not in present]
        lines.append(f"X-Scheduling-Deadline: {until}\r\n")
        if trace and "traceparent" not in present:
            lines.append(f"traceparent: 00-{trace}-{span or f'{next(self._spans)}-01'}\r\n")
        return _encode(lines, hop)

    def _add(self, lines: list[str], headers: Headers) -> set[str]:
        """Adds the step's headers; returns their names in lower case."""
        present = set()
        known = self._names
        for name, value in headers:
            present.add(known[name] if name in known else self._check_name(name))
            if not value.isprintable() and _CONTROL.search(value):
                raise ConnectFailed(f"The header {name} has a control character in its value: remove it.")
            lines.append(f"{name}: {value}\r\n")
        return present

    def _check_name(self, name: str) -> str:
        if not _TOKEN.fullmatch(name):
            raise ConnectFailed(f"{name[:80]!r} is not a header name: use letters, digits and '-'.")
        lower = name.lower()
        if lower in _CONNECTION_HEADERS:
            raise ConnectFailed(
                f"The header {name} is set by the connection itself: remove it from the step."
            )
        if len(self._names) < _MAX_CACHED_NAMES:
            self._names[name] = lower
        return lower


def count_spans(seed: int) -> Iterator[str]:
    """Span ids of 16 hex digits, all different and never all zero, counted up from one random number."""
    number = seed & 0xFFFFFFFFFFFFFFFF
    while True:
        number = (number + 1) & 0xFFFFFFFFFFFFFFFF or 1
        yield number.to_bytes(8).hex()


def _encode(lines: list[str], hop: Hop) -> bytes:
    body = hop.body
    if body is None:
        lines.append("Content-Length: 0\r\n\r\n" if hop.method in _WITH_LENGTH else "\r\n")
    else:
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
    try:
        head = "".join(lines).encode()
    except UnicodeEncodeError:
        raise ConnectFailed("A header has a lone surrogate, which has no encoding: remove it.") from None
    return head if body is None else head + body
