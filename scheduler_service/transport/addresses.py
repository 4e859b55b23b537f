"""Strict reading of a target's URL: what two parsers could read differently is refused (SPEC section 9)."""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote

import msgspec

from scheduler_service.transport.errors import RefusedTarget

Address = IPv4Address | IPv6Address

_URL = re.compile(r"(?i:(https?))://([^/?#]*)([^#]*)(?:#.*)?", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:@]*)(?::([0-9]*))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PLAIN = re.compile(r"[!$-;=?-Z\[\]_a-z~]*")
_KEPT = "!$%&'()*+,-./:;=?@[]_~"
_PORTS = {"http": 80, "https": 443}


class Site(msgspec.Struct, frozen=True, gc=False):
    """Where a URL points: scheme, host (lower case, no brackets, no final dot) and port.

    `authority` is the value of the `Host` header. `origin` is `scheme://host[:port]`, safe in messages: it
    never carries a secret. `address` is the host if it is an IP literal, else None.
    """

    scheme: str
    host: str
    port: int
    authority: str
    origin: str
    address: Address | None = None


class TargetAddress(msgspec.Struct, frozen=True, gc=False):
    """A whole target: the site, and path with query as they are sent."""

    site: Site
    path: str


def read_url(url: str) -> TargetAddress:
    """Reads an absolute `http` or `https` URL; the fragment is dropped.

    Characters outside ASCII in path and query are percent-encoded as UTF-8. Raises RefusedTarget for
    another scheme, white space, control characters, a backslash, user information, a wrong port, and for
    hosts that are odd spellings of numbers, percent-encoded, or not ASCII.
    """
    scheme, authority, rest = split_url(url)
    return TargetAddress(read_site(scheme, authority), rest)


def split_url(url: str) -> tuple[str, str, str]:
    """(scheme, authority, path with query) of an http(s) URL; the authority is not checked yet."""
    if _FORBIDDEN.search(url):
        raise RefusedTarget(
            "The URL has white space, a control character or a backslash: percent-encode it (a space is %20)."
        )
    match = _URL.fullmatch(url)
    if match is None:
        scheme = url.partition(":")[0][:20]
        raise RefusedTarget(
            f"The URL does not begin with http://, https:// or service: (it begins with {scheme!r})."
        )
    scheme, authority, rest = match.groups()
    return scheme.lower(), authority, write_path(rest)


def write_path(rest: str) -> str:
    """Path and query as they are sent: they begin with `/` and contain URI characters only."""
    if not rest.startswith("/"):
        rest = "/" + rest
    if _PLAIN.fullmatch(rest):
        return rest
    try:
        return quote(rest, safe=_KEPT)
    except UnicodeEncodeError:
        raise RefusedTarget("The URL has a lone surrogate, which has no encoding: remove it.") from None


def read_site(scheme: str, authority: str) -> Site:
    """The site of an authority (`host`, `host:port`, `[v6]:port`). Raises RefusedTarget."""
    if "@" in authority:
        raise RefusedTarget(
            "The URL has user information before its host: send an Authorization header instead."
        )
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _refuse(authority, "it is not HOST or HOST:PORT")
    text, digits = match.groups()
    port = _read_port(authority, digits or "", _PORTS[scheme])
    host, address = _read_host(text.lower())
    shown = f"[{host}]" if isinstance(address, IPv6Address) else host
    full = shown if port == _PORTS[scheme] else f"{shown}:{port}"
    return Site(
        scheme=scheme, host=host, port=port, authority=full, origin=f"{scheme}://{full}", address=address
    )


def _read_port(authority: str, digits: str, default: int) -> int:
    if not digits:
        return default
    if len(digits) > 5 or not 0 < int(digits) < 65536:
        raise _refuse(authority, "a port is a number from 1 to 65535")
    return int(digits)


def _read_host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        return _read_ipv6(text)
    if not text.isascii():
        raise _refuse(text, "a host outside ASCII is ambiguous, write its xn-- form")
    name = text.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _read_ipv4(text)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refuse(text, "it is not a host name")
    return name, None


def _read_ipv4(text: str) -> tuple[str, Address]:
    """Accepts only four decimal numbers without leading zeros: parsers disagree about all other forms."""
    try:
        return text, IPv4Address(text)
    except AddressValueError:
        raise _refuse(text, "an IPv4 address is written as four decimal numbers from 0 to 255") from None


def _read_ipv6(text: str) -> tuple[str, Address]:
    inner = text[1:-1]
    if "%" in inner:
        raise _refuse(text, "a zone in an address is not accepted")
    try:
        address = IPv6Address(inner)
    except AddressValueError:
        raise _refuse(text, "it is not an IPv6 address") from None
    return str(address), address


def _refuse(host: str, reason: str) -> RefusedTarget:
    return RefusedTarget(f"The host {host[:80]!r} is refused: {reason}.")
