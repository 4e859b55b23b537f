"""Origins, authorities and topics of URLs; where a response may send the next call (SPEC section 9)."""

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.secret_places import FilledBody, FilledText
from scheduler_service.domain.texts import scrub
from scheduler_service.domain.wire import Headers
from scheduler_service.language.compiled import UrlTemplate

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_UNSAFE = re.compile(r"[^\x21-\x7e]+")
_WRITABLE = "".join(map(chr, range(0x21, 0x7F)))
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]+)(?::([0-9]{0,5}))?")
_PORTS = {"http": 80, "https": 443}
_HIGHEST_PORT = 65_535
KNOWN_NAMES = ("{serviceName}", "{serviceGateway}")
"""The placeholders for a service name (SPEC section 9)."""

_BEGIN = re.compile(r"([A-Za-z]+)://([^/?#]*)")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([^:]*))?")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)")
_TOPIC = re.compile(r"(?i:topic)://([A-Za-z0-9._-]+/[^?#\x00-\x20\x7f\\]+)")
_DOT_SEGMENT = re.compile(r"(?i)(?:^|/)(?:\.|%2e){1,2}(?:/|$)")


class Whole(msgspec.Struct, frozen=True):
    """An absolute URL of an allowed origin."""

    url: str


class NotAUrl(msgspec.Struct, frozen=True):
    """The text is not a URL (error `template`)."""

    message: str


class ForeignOrigin(msgspec.Struct, frozen=True):
    """The origin of the URL is not allowed (error `egress`)."""

    message: str


class _UrlParts(msgspec.Struct, frozen=True):
    scheme: str
    authority: str | None
    path: str
    query: str
    fragment: str


def resolve_whole(value: str, *, base: str, follow: frozenset[str]) -> Whole | NotAUrl | ForeignOrigin:
    """A whole URL from a response, resolved against `base`, the address that answered (RFC 3986 section 5).

    Allowed are the origin of `base` and those of `follow` (`scheme://host:port`), with http, https or
    service, and without user information.
    """
    if not value or _FORBIDDEN.search(value):
        return NotAUrl(
            "the value is not a url: it is empty or has a space, a backslash or a control character"
        )
    target = _resolve(_split(_encode(value)), _split(base))
    if not _SCHEME.fullmatch(target.scheme):
        return NotAUrl("the value is not a url: the text before the colon is not a scheme")
    if target.scheme not in ("http", "https", "service"):
        return ForeignOrigin(
            f"the url's scheme is {target.scheme!r}; only http, https and service are allowed"
        )
    if "@" in (target.authority or ""):
        return ForeignOrigin("the url contains user information, which is refused")
    reached = _origin(target)
    if reached is None:
        return NotAUrl("the value is not a url: its host or port cannot be read")
    if reached != origin(base) and reached not in {origin(allowed) for allowed in follow}:
        return ForeignOrigin(
            f"the url leads to {reached}, which is neither the origin that answered nor in egress.follow"
        )
    url = _join(target)
    if origin(url) != reached:  # "/.//host" resolves to a path that reads as a host
        return NotAUrl("the value is not a url: its path begins with two slashes")
    return Whole(url)


def quote_location(value: str) -> str:
    """A `Location` as it came, in Latin-1, with its blanks and bytes outside ASCII percent-encoded.

    The bytes are those of the target, in whatever charset it has its paths. A host keeps what it has.
    """
    if value.isascii() and " " not in value:
        return value
    head = re.match(r"(?:[^:/?#]+:)?(?://[^/?#]*)?", value)
    assert head is not None
    rest = value[head.end() :].encode("latin-1", "replace")
    return head.group() + quote(rest, safe=_WRITABLE)


REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""The statuses that lead on where they have a `Location`."""
SIDECAR_HEADER = "dapr-api-token"
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", SIDECAR_HEADER})
_OF_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-location"})


class Redirected(NamedTuple):
    """What a redirect makes of a request, but for its address."""

    method: str
    headers: Headers
    body: bytes | None


def redirect(
    method: str, headers: Headers, body: bytes | None, status: int, *, is_same_origin: bool
) -> Redirected | None:
    """The request that follows one of the `REDIRECTS` (SPEC section 9); None: it is not followed.

    301 to 303 become GET without a body, 307 and 308 keep both. Credentials are not sent to another origin,
    nor is a header with a secret, whatever it is called; a body with one is no request for another origin.
    """
    if not is_same_origin:
        headers = tuple([pair for pair in _without(headers, _CREDENTIALS) if type(pair[1]) is not FilledText])
    if status in (307, 308):
        has_secret = type(body) is FilledBody
        return None if has_secret and not is_same_origin else Redirected(method, headers, body)
    return Redirected(method if method == "HEAD" else "GET", _without(headers, _OF_BODY), None)


def _without(headers: Headers, names: frozenset[str]) -> Headers:
    return tuple([pair for pair in headers if pair[0].lower() not in names])


def origin(url: str) -> str:
    """`scheme://host:port` in lower case, always with the port; empty for a text without an origin.

    Of a service it is `service://name`, of `service:/path` `service:`.
    """
    return _origin(_split(url)) or ""


def check_authority(template: UrlTemplate) -> None:
    """Refuses a literal authority that no request can reach; one with a variable is checked when it is sent.

    Of `http(s)`: no host, a host not separable from its port, an invalid port. Of `service`: a port, an
    unknown placeholder, an invalid name. Raises ExpressionError.
    """
    begin, *others = template.parts
    found = _BEGIN.match(begin) if isinstance(begin, str) else None
    if found is None or (others and found.end() == found.endpos):
        return
    scheme, authority = found[1].lower(), found[2]
    if scheme in ("http", "https"):
        _check_host(authority, found.start(2))
    if scheme == "service":
        _check_service(authority, found.start(2))


def names_service(text: str) -> bool:
    """Whether `text` is a service name or a placeholder for one."""
    return text in KNOWN_NAMES or is_service_name(text)


def is_service_name(name: str) -> bool:
    """Whether a service can have this name in a URL; a numeric address is not a name."""
    return explain_service_name(name) is None


def explain_service_name(name: str) -> str | None:
    """Why no URL can name a service so, or None."""
    shown = repr(name[:80])
    if _NAME.fullmatch(name) is None:
        form = "at most 128 letters, digits, '.', '_' and '-', with a letter, digit or '_' at both ends"
        return f"{shown} is not a service name; use {form}"
    if _NUMERIC.fullmatch(name) is not None:
        return f"{shown} is read as a numeric address; use a name whose last part is no number"
    return None


def read_topic(url: str) -> str | None:
    """PUBSUB/TOPIC of `topic://PUBSUB/TOPIC`; None for all else, and for what would lead out of it."""
    found = _TOPIC.fullmatch(url)
    return None if found is None or has_dot_segment(found[1]) else found[1]


def has_dot_segment(path: str) -> bool:
    """Whether a segment of `path` is `.` or `..`, percent-encoded or not."""
    return _DOT_SEGMENT.search(path) is not None


def _origin(parts: _UrlParts) -> str | None:
    if parts.scheme == "service":
        return "service:" if parts.authority is None else f"service://{parts.authority}"
    host = _HOST.fullmatch(parts.authority or "")
    if parts.scheme not in _PORTS or host is None:
        return None
    port = int(host[2]) if host[2] else _PORTS[parts.scheme]
    return f"{parts.scheme}://{host[1].lower()}:{port}" if port <= _HIGHEST_PORT else None


def _split(url: str) -> _UrlParts:
    found = _PARTS.fullmatch(url)
    assert found is not None  # the expression matches every text
    scheme, authority, path, query, fragment = found.groups()
    return _UrlParts((scheme or "").lower(), authority, path, query or "", fragment or "")


def _resolve(reference: _UrlParts, base: _UrlParts) -> _UrlParts:
    """RFC 3986 section 5.2.2, strict."""
    if reference.scheme:
        return msgspec.structs.replace(reference, path=_without_dots(reference.path))
    if reference.authority is not None:
        return msgspec.structs.replace(reference, scheme=base.scheme, path=_without_dots(reference.path))
    path, query = _merge(reference, base), reference.query or ("" if reference.path else base.query)
    return _UrlParts(base.scheme, base.authority, path, query, reference.fragment)


def _merge(reference: _UrlParts, base: _UrlParts) -> str:
    if not reference.path:
        return base.path
    if reference.path.startswith("/"):
        return _without_dots(reference.path)
    folder = base.path.rpartition("/")[0]
    return _without_dots(f"{folder}/{reference.path}")


def _without_dots(path: str) -> str:
    """RFC 3986 section 5.2.4."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == ".." and len(kept) > 1:
            kept.pop()
        elif segment not in (".", ".."):
            kept.append(segment)
    return "/".join([*kept, ""] if segments[-1] in (".", "..") else kept)


def _join(parts: _UrlParts) -> str:
    authority = "" if parts.authority is None else f"//{parts.authority}"
    return f"{parts.scheme}:{authority}{parts.path}{parts.query}{parts.fragment}"


def _encode(value: str) -> str:
    """The URL with non-ASCII letters percent-encoded after the host; a host with such letters is foreign."""
    head = re.match(r"(?:[^:/?#]+:)?(?://[^/?#]*)?", value)
    assert head is not None
    return head.group() + _UNSAFE.sub(lambda found: quote(scrub(found.group())), value[head.end() :])


def _check_host(authority: str, column: int) -> None:
    host = _AUTHORITY.fullmatch(authority)
    if host is None:
        message = f"the host {authority[:80]!r} is not HOST or HOST:PORT; write an IPv6 address in brackets"
        raise ExpressionError(message, column=column)
    if host[1] in ("", "[]"):
        raise ExpressionError(f"the url has no host in {authority[:80]!r}", column=column)
    if host[2] and not _is_port(host[2]):
        message = f"the port {host[2][:80]!r} is not valid; write a number from 1 to {_HIGHEST_PORT}"
        raise ExpressionError(message, column=column + host.start(2))


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 0 < int(text) <= _HIGHEST_PORT


def _check_service(name: str, column: int) -> None:
    if ":" in name:
        host = name.partition(":")[0]
        message = f"a service has no port: its name gives its address; write service://{host[:80]}/"
        raise ExpressionError(message, column=column + len(host))
    if not name or names_service(name):
        return
    if "{" in name or "}" in name:
        message = f"{name[:80]!r} is not a placeholder; use {' or '.join(KNOWN_NAMES)}"
        raise ExpressionError(message, column=column)
    raise ExpressionError(
        explain_service_name(unquote(name)) or explain_service_name(name) or "", column=column
    )
