"""The address of a service, and the names in paths below it."""

import ipaddress
import re
from urllib.parse import quote

import httpx

from client_sdk.names import INSTANCE_ID, JOB_ID, SERVICE_NAME

LONGEST_SHOWN = 140
_OF_ID = "use 1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit"
_OF_NAME = "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
_OF_GIVEN = "use the id that the scheduler gave"
_GIVEN_ID = r"^(?!\.{1,2}$)[!\"$&-.0->@-~]{1,256}$"
"""Printable ASCII without what ends or changes a segment: `/`, `?`, `#` and `%`."""

FORMS = {
    "job": ("job_id", JOB_ID, _OF_ID),
    "execution": ("execution", _GIVEN_ID, _OF_GIVEN),
    "delivery": ("delivery", _GIVEN_ID, _OF_GIVEN),
    "operation": ("operation", _GIVEN_ID, _OF_GIVEN),
    "lease": ("lease", _GIVEN_ID, _OF_GIVEN),
    "queue": ("name", SERVICE_NAME, _OF_NAME),
    "service": ("name", SERVICE_NAME, _OF_NAME),
    "instance": ("instance_id", INSTANCE_ID, _OF_ID),
}
"""Of each kind: the argument that names one, its pattern, and the pattern in words."""
_PATTERNS = {kind: re.compile(pattern[1:-1]) for kind, (_, pattern, _) in FORMS.items()}
LONGEST_HOST = 253
HIGHEST_PORT = 65_535
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


def quote_name(kind: str, name: object) -> str:
    """`name` as a segment of a path; `kind` is one of FORMS.

    Raises TypeError if it is no text, ValueError if nothing of this kind can have it.
    """
    argument, _, form = FORMS[kind]
    if not isinstance(name, str):
        raise TypeError(f"{argument} is of type {type(name).__name__}, not the text that names {_a(kind)}")
    if _PATTERNS[kind].fullmatch(name) is None:
        what = "name" if argument == "name" else "id"
        raise ValueError(f"{argument} {name[:LONGEST_SHOWN]!r} is no {what} of {_a(kind)}; {form}")
    return quote(name, safe=":")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "eio" else f"a {kind}"


def read_url(url: str) -> httpx.URL:
    """The address of a service, as given. Raises ValueError for one that no connection can reach.

    Valid are `http` and `https`, a name or an IP address as host, and a port from 1 to 65535, if any.
    """
    try:
        read = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _invalid(url, str(error)) from error
    if read.scheme not in ("http", "https"):
        raise _invalid(url, "its scheme is neither http nor https")
    if not _is_host(read.raw_host.decode("ascii")):
        raise _invalid(url, "its host is neither a name nor an IP address" if read.host else "it has no host")
    if read.port is not None and not 1 <= read.port <= HIGHEST_PORT:
        raise _invalid(url, f"its port is not between 1 and {HIGHEST_PORT}")
    return read


def _is_host(host: str) -> bool:
    if ":" not in host:
        return len(host) <= LONGEST_HOST and _NAME.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _invalid(url: str, reason: str) -> ValueError:
    return ValueError(f"url {url!r} is not the address of a service: write http://HOST:PORT ({reason})")
