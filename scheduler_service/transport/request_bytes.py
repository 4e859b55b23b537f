"""A request as bytes; the head is checked, so that no value can inject a header or a second request."""

import re
from collections.abc import Iterator
from operator import itemgetter

import msgspec

from scheduler_service.domain.wire import Headers
from scheduler_service.transport.addresses import TargetAddress
from scheduler_service.transport.egress_guard import Trust
from scheduler_service.transport.errors import ConnectFailed

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CONNECTION_HEADERS = frozenset(
    {"host", "content-length", "connection", "transfer-encoding", "keep-alive", "upgrade", "te"}
)
APART_BYTES = 65_536
"""A longer body is not copied to stand behind its head: it is sent as it is."""
_COMMON = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"})
_WITH_LENGTH = frozenset({"POST", "PUT", "PATCH"})
_MAX_CACHED_HEADS = 1024
_MAX_CACHED_LENGTH = 2048
_NAME, _VALUE = itemgetter(0), itemgetter(1)


class Hop(msgspec.Struct, frozen=True, gc=False):
    """One exchange of a call: the first, or a redirect's. `by_sidecar`: this node's sidecar is called.

    `sign` names the secret that signs it; empty: none, or it is signed already.
    """

    method: str
    target: TargetAddress
    headers: Headers
    body: bytes | None
    trust: Trust
    by_sidecar: bool = False
    sign: str = ""


class RequestWriter:
    """Writes requests. `agent` is the User-Agent of requests without one; `spans` yields span ids."""

    def __init__(self, *, agent: str, spans: Iterator[str]) -> None:
        self._spans = spans
        self._heads: dict[tuple[str, ...], tuple[str, bool]] = {}
        self._defaults = {
            "user-agent": f"User-Agent: {agent.replace('%', '%%')}\r\n",
            "accept": "Accept: */*\r\n",
            "accept-encoding": "Accept-Encoding: identity\r\n",
        }

    def write(self, hop: Hop, trace: str, until: str, span: str = "") -> bytes:
        """The request's bytes, without a body of more than `APART_BYTES`, which follows them.

        `until` is its deadline, `trace` and `span` are those of an OutboundRequest.

        Header values outside ASCII are sent as UTF-8.

        Raises ConnectFailed for a method, header name or value that HTTP cannot carry, and for headers that
        the connection itself sets.
        """
        method, headers, body = hop.method, hop.headers, hop.body
        if method not in _COMMON and (not _TOKEN.fullmatch(method) or method == "CONNECT"):
            raise ConnectFailed(f"The method {method[:40]!r} cannot be sent: use another one.")
        # Every call is written here: what follows from the names of its headers is made once for them.
        names, values = tuple(map(_NAME, headers)), tuple(map(_VALUE, headers))
        known = self._heads.get(names)
        pattern, has_trace = self._begin_head(names) if known is None else known
        if not "".join(values).isprintable():
            _check_values(headers)
        parent = ""
        if trace and not has_trace:
            parent = f"traceparent: 00-{trace}-{span or f'{next(self._spans)}-01'}\r\n"
        length = ""
        if body is not None:
            length = f"Content-Length: {len(body)}\r\n"
        elif method in _WITH_LENGTH:
            length = "Content-Length: 0\r\n"
        target = hop.target
        text = (
            f"{method} {target.path} HTTP/1.1\r\nHost: {target.site.authority}\r\n{pattern % values}"
            f"X-Scheduling-Deadline: {until}\r\n{parent}{length}\r\n"
        )
        try:
            head = text.encode()
        except UnicodeEncodeError:
            raise ConnectFailed("A header has a lone surrogate, which has no encoding: remove it.") from None
        return head if body is None or len(body) > APART_BYTES else head + body

    def _begin_head(self, names: tuple[str, ...]) -> tuple[str, bool]:
        """The pattern of all headers but the last ones, and whether a traceparent is among them.

        Raises ConnectFailed.
        """
        present = {_check_name(name) for name in names}
        own = "".join([f"{name.replace('%', '%%')}: %s\r\n" for name in names])
        defaults = [line for name, line in self._defaults.items() if name not in present]
        found = own + "".join(defaults), "traceparent" in present
        if len(self._heads) >= _MAX_CACHED_HEADS:
            self._heads.clear()
        if len(found[0]) <= _MAX_CACHED_LENGTH:
            self._heads[names] = found
        return found


def _check_name(name: str) -> str:
    """The name in lower case. Raises ConnectFailed."""
    if not _TOKEN.fullmatch(name):
        raise ConnectFailed(f"{name[:80]!r} is not a header name: use letters, digits and '-'.")
    lower = name.lower()
    if lower in _CONNECTION_HEADERS:
        raise ConnectFailed(f"The header {name} is set by the connection itself: remove it from the step.")
    return lower


def count_spans(seed: int) -> Iterator[str]:
    """Span ids of 16 hex digits, all different and never all zero, counted up from one random number."""
    number = seed & 0xFFFFFFFFFFFFFFFF
    while True:
        number = (number + 1) & 0xFFFFFFFFFFFFFFFF or 1
        yield number.to_bytes(8).hex()


def _check_values(headers: Headers) -> None:
    """Raises ConnectFailed for a value that would end its header; what is not printable may be harmless."""
    for name, value in headers:
        if _CONTROL.search(value):
            raise ConnectFailed(f"The header {name} has a control character in its value: remove it.")
