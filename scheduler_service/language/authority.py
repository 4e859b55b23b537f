"""Checks the host of a URL before any request (SPEC sections 4 and 9, RFC 3986 section 3.2)."""

import re
from urllib.parse import unquote

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.compiled import UrlTemplate

KNOWN_NAMES = ("{serviceName}", "{serviceGateway}")
"""The placeholders for a service name (SPEC section 9)."""

_BEGIN = re.compile(r"([A-Za-z]+)://([^/?#]*)")
_HOST = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([^:]*))?")
_HIGHEST_PORT = 65_535
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?")
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)")


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
    return _NAME.fullmatch(name) is not None and _NUMERIC.fullmatch(name) is None


def _check_host(authority: str, column: int) -> None:
    host = _HOST.fullmatch(authority)
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
    message = f"{unquote(name)[:80]!r} is not a service name; use letters, digits, '.', '_' and '-'"
    raise ExpressionError(message, column=column)
