"""The next hop of a redirect, a pure function of the hop before (SPEC section 9)."""

import re
from urllib.parse import urljoin

from scheduler_service.domain.wire import Headers
from scheduler_service.language.urls import quote_location
from scheduler_service.transport.addresses import Target, read_url
from scheduler_service.transport.errors import RefusedTarget
from scheduler_service.transport.request_bytes import Hop
from scheduler_service.transport.response_parser import ParsedResponse
from scheduler_service.transport.sidecar_token import SIDECAR_HEADER

_FOLLOWED = frozenset({301, 302, 303, 307, 308})
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", SIDECAR_HEADER})
_OF_BODY = frozenset({"content-type", "content-encoding", "content-language", "content-location"})
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


def follow(hop: Hop, reply: ParsedResponse) -> Hop | None:
    """The hop that a response redirects to, or None if it is not a redirect.

    301 to 303 become GET without a body, 307 and 308 keep both; credentials are not sent to another origin,
    and only a service's own origin stays trusted: not that of the sidecar, where its own API is. Raises
    RefusedTarget for a Location that is not plain http(s).
    """
    location = dict(reply.headers).get("location") if reply.status in _FOLLOWED else None
    if location is None:
        return None
    target = _read_location(hop.target, location)
    is_same_site = target.site.origin == hop.target.site.origin and not hop.by_sidecar
    headers = hop.headers if is_same_site else _without(hop.headers, _CREDENTIALS)
    trusted = hop.trusted and is_same_site
    if reply.status in (307, 308):
        return Hop(hop.method, target, headers, hop.body, trusted)
    method = hop.method if hop.method == "HEAD" else "GET"
    return Hop(method, target, _without(headers, _OF_BODY), None, trusted)


def write_url(target: Target) -> str:
    """The URL of a target."""
    return target.site.origin + target.path


def _read_location(base: Target, location: str) -> Target:
    # urljoin silently drops some control characters, so they are refused first.
    if _FORBIDDEN.search(location):
        raise RefusedTarget(
            f"{base.site.origin} redirects to something that is not a URL: correct its Location header."
        )
    try:
        return read_url(urljoin(write_url(base), quote_location(location)))
    except ValueError as error:
        raise RefusedTarget(
            f"{base.site.origin} redirects to something that is not a URL: {error}."
        ) from error


def _without(headers: Headers, names: frozenset[str]) -> Headers:
    return tuple(pair for pair in headers if pair[0].lower() not in names)
