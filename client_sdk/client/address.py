"""The address of a service: its form, checked before anything is sent."""

import ipaddress
import re

import httpx

LONGEST_HOST = 253
HIGHEST_PORT = 65_535
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


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
