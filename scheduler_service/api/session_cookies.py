"""The cookie of a session, and from which pages it counts: origins, hosts and prefixes behind proxies."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from starlette.types import Scope

from scheduler_service.api.bodies import header
from scheduler_service.api.responses import refuse

COOKIE = "punctual_session"
SESSION_MS = 12 * 3_600_000
"""After so long a browser signs in again."""
MOST_COOKIES = 4
"""So many cookies of this name are looked at: browsers send one for each path that fits."""
READING = frozenset({"GET", "HEAD"})
OTHER_SITES = frozenset({"cross-site", "same-site"})
MARK = "X-Punctual-Console"
PREFIX_HEADER = b"x-forwarded-prefix"
LONGEST_PREFIX = 200
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+/?")


def session_cookies(scope: Scope) -> list[str]:
    """The values of the session's cookie, the one of the longest path first (RFC 6265, section 5.4)."""
    return [value for value, _ in zip(_values(scope), range(MOST_COOKIES), strict=False)]


def write_cookie(scope: Scope, text: str, own_url: str | None = None) -> str:
    """The header `Set-Cookie` for a session; without a text it removes the cookie.

    Scripts do not see it, and browsers send it with requests of the console's own pages alone. It is for TLS
    alone where the browser came by TLS: as the origin of the page, a proxy or `own_url` says.
    """
    parts = [
        f"{COOKIE}={text}",
        f"Path={public_prefix(scope) or '/'}",
        f"Max-Age={SESSION_MS // 1_000 if text else 0}",
        "HttpOnly",
        "SameSite=Strict",
    ]
    return "; ".join([*parts, "Secure"] if _is_secure(scope, own_url) else parts)


def check_console(scope: Scope, own_url: str | None = None) -> None:
    """Refuses a change that a page of another origin could have caused. Raises ApiProblem (403).

    No foreign page can send the header `X-Punctual-Console` without being asked first, and nothing here
    allows that (Fetch, section 3.2).
    """
    if scope["method"] in READING:
        return
    check_origin(scope, own_url)
    if header(scope, MARK.lower().encode()) != "1":
        message = (
            f"a change in a session comes from the console, with '{MARK}: 1'; from anywhere else send "
            "'Authorization: Bearer KEY' and no cookie"
        )
        raise refuse(HTTPStatus.FORBIDDEN, f"/{MARK}", "console", message)


def check_origin(scope: Scope, own_url: str | None = None) -> None:
    """Refuses what says that it comes from a page of another origin. Raises ApiProblem (403).

    The origin of `own_url` (server.external_url) is this service's too: a proxy may pass on any `Host`. Its
    host by another scheme is not: who sits between can write pages of http, and none of https.
    """
    site = (header(scope, b"sec-fetch-site") or "").strip().lower()
    if site in OTHER_SITES:  # of a browser, which does not always say the origin
        message = f"a page of another origin ({site}) may not change anything here"
        raise refuse(HTTPStatus.FORBIDDEN, "/Sec-Fetch-Site", "origin", message)
    origin = header(scope, b"origin")
    if origin is None:
        return
    said, own = _parts(origin), _parts(own_url or "")
    is_downgraded = said is not None and own is not None and said[1] == own[1] and said[0] != own[0]
    if is_same_origin(origin, *_own_hosts(scope)) and not is_downgraded:
        return
    if own_url is None or said != own:
        message = (
            f"the page {origin[:80]!r} may not change anything here; if that is this service behind a proxy, "
            "set server.external_url to it"
        )
        raise refuse(HTTPStatus.FORBIDDEN, "/Origin", "origin", message)


def check_host(scope: Scope, own_url: str | None) -> None:
    """Refuses what was sent to another host than that of `own_url`. Raises ApiProblem (403).

    So no page gets in whose name leads to the proxy of this service (DNS rebinding). Such a page may write
    `X-Forwarded-Host` itself, and a proxy that does not know this header passes it on: it never stands for
    `Host`, and where it is there it names the same host.
    """
    host, forwarded = _own_hosts(scope)
    own = _parts(own_url or "")
    for said in (host, forwarded or host):
        if own is None or _parts(f"{own[0]}://{said}") != own:
            message = (
                f"{said[:80]!r} is not the host of server.external_url; let the proxy pass on Host as it came"
            )
            raise refuse(HTTPStatus.FORBIDDEN, "/Host", "host", message)


def is_same_origin(origin: str, *hosts: str) -> bool:
    """Whether `origin` is a page of one of the `hosts`."""
    try:
        return urlsplit(origin).netloc.lower() in {host.lower() for host in hosts if host}
    except ValueError:
        return False


def _own_hosts(scope: Scope) -> tuple[str, ...]:
    """The names under which browsers see this service: a proxy may put another one into `Host`."""
    said = header(scope, b"x-forwarded-host") or ""
    return header(scope, b"host") or "", said.partition(",")[0].strip()


def _is_secure(scope: Scope, own_url: str | None) -> bool:
    said = (header(scope, b"x-forwarded-proto") or "").partition(",")[0].strip().lower()
    page = header(scope, b"origin") or own_url or ""
    return "https" in (said, scope.get("scheme"), page.partition(":")[0].lower())


def _parts(url: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port of an origin (RFC 6454, section 4); None: it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return parts.scheme, parts.hostname, port


def _values(scope: Scope) -> Iterator[str]:
    for key, value in scope["headers"]:
        if key == b"cookie":
            for part in str(value, "latin-1").split(";"):
                name, _, text = part.strip().partition("=")
                if name == COOKIE:
                    yield text


def public_prefix(scope: Scope) -> str:
    """The prefix before all paths of the service, without a slash at its end; mostly empty.

    `X-Forwarded-Prefix` counts where it is a plain path (`/tools/punctual`), else the `root_path` of the ASGI
    server. The result may stand in a `Location`, a `Path` of a cookie and, escaped, in HTML: it is never an
    address of another machine.
    """
    said = header(scope, PREFIX_HEADER)
    if said is not None and len(said) <= LONGEST_PREFIX and _PREFIX.fullmatch(said):
        return said.rstrip("/")
    root = str(scope.get("app_root_path", scope.get("root_path", "")))
    return quote("/" + root.strip("/"), safe="/~") if root.strip("/") else ""
