"""Finds the caller of a request: by key, session, or as this machine without a key (SPEC section 14)."""

import hmac
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

import msgspec
from starlette.types import Scope

from scheduler_service.api.bodies import header, only_header
from scheduler_service.api.responses import ApiProblem, absent, refuse
from scheduler_service.domain.access_keys import AccessKey
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.security.callers import SESSION_MS, Caller, Role, Session, SessionSeal, WrongKeys
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.proxies import Proxies

COOKIE = "punctual_session"
MOST_COOKIES = 4
"""So many cookies of this name are looked at: browsers send one for each path that fits."""
READING = frozenset({"GET", "HEAD"})
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

    The origin of `own_url` (server.external_url) is this service's too: a proxy may pass on any `Host`.
    """
    origin = header(scope, b"origin")
    if origin is None or is_same_origin(origin, *_own_hosts(scope)):
        return
    if own_url is None or _parts(origin) != _parts(own_url):
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


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OF_PROXIES = frozenset(
    b"forwarded via x-real-ip x-client-ip x-cluster-client-ip true-client-ip fastly-client-ip fly-client-ip "
    b"x-envoy-external-address x-original-forwarded-for".split()
)
PREFIXES_OF_PROXIES = b"x-forwarded-", b"cf-", b"x-amzn-trace"
BEARER = "bearer "
OF_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
"""The names of this machine that nearly every local caller uses: to parse an address takes 10 µs."""

PEER = "punctual.peer"
"""Where a scope has the address of its connection, where that is a proxy's, too."""
FORWARDED_FOR = b"x-forwarded-for"
KEY_NAME = "admin"
"""The name of the key in the settings."""

Authenticate = Callable[[Scope, bool], Caller]
"""Takes a request's scope, and whether its operation is open. Raises ApiProblem (400, 401, 403)."""


class KnownCaller(msgspec.Struct, frozen=True):
    """A caller that is known, and when (ms since 1970) it is not any more; None: it has no end.

    `is_of_proxy`: by what a proxy says, so that it is signed in again with each request.
    """

    caller: Caller
    expires: int | None = None
    is_of_proxy: bool = False


class Authentication:
    """Checks a request before anything else is done with it.

    Where callers need a key, every request carries one as `Authorization: Bearer …`, or the cookie of a
    session that was opened with it: `admin_key`, which is an admin of `tenant`, or a key of `ring`. Open
    operations need neither. Without any key, the peer's address and the name in `Host` must be of this
    machine, no proxy may say that it passes the request on, and one that changes something must not come
    from a web page of another origin; every caller is then an admin of `tenant` and has the name of this
    machine's `user`. With a key, pages of `own_url` (server.external_url) are the service's own.

    Behind one of `proxies` the address of a caller is the one that it names, and where it signs users in,
    they need no key: of a browser that is as a session is, and `Host` has to be that of `own_url` then.

    Sessions hold in all processes, as their keys do. A wrong key is 401, and 429 where too many were tried
    from its address, or from all. A right one always gets in: behind a proxy all callers may have one
    address.
    """

    def __init__(
        self,
        *,
        admin_key: str | None,
        tenant: str,
        user: str,
        now: Callable[[], Now],
        own_url: str | None = None,
        ring: KeyRing | None = None,
        proxies: Proxies | None = None,
    ) -> None:
        self._own_url = own_url
        self._admin_key = None if admin_key is None else admin_key.encode()
        self._admin = Caller(tenant, Role.ADMIN, name=KEY_NAME)
        self._local = Caller(tenant, Role.ADMIN, name=user)
        self._seal = None if self._admin_key is None else SessionSeal(key=self._admin_key)
        self.ring = ring
        self._proxies = proxies or Proxies()
        self._now = now
        self._wrong_keys = WrongKeys()

    def __call__(self, scope: Scope, is_open: bool) -> Caller:
        """The caller of the request. Raises ApiProblem (401, 403)."""
        if not self.needs_key:
            _check_local(scope)
            return self._local
        self._find_origin(scope)
        return self._admin if is_open else self._check_key(scope)

    @property
    def has_admin_key(self) -> bool:
        """Whether the settings have a key."""
        return self._admin_key is not None

    @property
    def needs_key(self) -> bool:
        """Whether callers need a key: one is configured, or was made, or a proxy signs users in."""
        is_made = self.ring is not None and self.ring.is_used
        return is_made or self._admin_key is not None or self._proxies.user_header is not None

    @property
    def own_url(self) -> str | None:
        """The address of the service's own pages; None without a key.

        Then no proxy is in front: one that does not say so would let pages of others in.
        """
        return self._own_url if self.needs_key else None

    def identify(self, scope: Scope) -> KnownCaller | None:
        """Who sends the request, if that is known: by a key where one is given, else by a session."""
        given = header(scope, b"authorization")
        if not self.needs_key:
            return KnownCaller(self._local)
        if given is not None:
            return self._find(_bearer(given))
        return self._session_of(scope) or self._user_of(scope)

    def count_wrong_key(self, scope: Scope) -> None:
        """One more wrong key came with the request. Raises ApiProblem (429) where there were too many.

        Nothing is awaited, so that of many at one moment each is counted.
        """
        address, now = _address_of(scope), self._now().steady
        if wait := self._wrong_keys.wait(address, now):
            raise _too_many(wait)
        self._wrong_keys.fail(address, now)

    def open_session(self, key: str, scope: Scope) -> tuple[KnownCaller, str] | None:
        """A session of whoever has this key, with its text for the cookie; None: the key is not known.

        The wrong keys of its address are forgotten: a person has mistyped. A session ends with its key.
        Raises ApiProblem (409) for a key of a version that had no sessions.
        """
        if (known := self._find(key)) is None:
            return None
        self._wrong_keys.succeed(_address_of(scope))
        caller, end = known.caller, self._now().wall + SESSION_MS
        expires = end if known.expires is None else min(end, known.expires)
        session = Session(caller.tenant, caller.role, caller.name, expires, caller.key_id, caller.rotations)
        if self.ring is not None and caller.key_id:
            text = self.ring.write_session(key, session)
        else:
            text = None if self._seal is None else self._seal.write(session)
        if text is None:
            message = "this key was made by an earlier version: sign in when it has been given a new text"
            raise refuse(HTTPStatus.CONFLICT, "/key", "conflict", message)
        return KnownCaller(caller, expires), text

    @asynccontextmanager
    async def watching(self, caller: Caller) -> AsyncIterator[None]:
        """What waits inside is refused within a second of the key's end. Raises ApiProblem (401)."""
        if self.ring is None or not caller.key_id:
            yield
            return
        try:
            async with self.ring.watching(caller.key_id, caller.rotations):
                yield
        except TimeoutError:
            raise _unknown_key("the key has ended") from None

    def check_ended(self, caller: Caller) -> None:
        """Raises ApiProblem (401) where the key of a caller that was let in has ended since."""
        if self.ring is not None and caller.key_id and not self.ring.get(caller.key_id, caller.rotations):
            raise _unknown_key("the key has ended")

    def _check_key(self, scope: Scope) -> Caller:
        given = only_header(scope, b"authorization")
        if given is not None:
            if (known := self._find(_bearer(given))) is None:
                self.count_wrong_key(scope)
                raise _unknown_key("this key is not known")
            return known.caller
        identity = self._session_of(scope)
        if identity is not None:
            check_console(scope, self.own_url)
            return identity.caller
        if (signed_in := self._user_of(scope)) is not None:
            check_console(scope, self.own_url)
            return signed_in.caller
        if session_cookies(scope):
            raise _unknown_key("the session has ended; sign in again")
        raise _unknown_key("a key is needed: send 'Authorization: Bearer KEY'")

    def _find_origin(self, scope: Scope) -> None:
        """Has the scope say from where the request comes; its peer is kept beside."""
        client = scope.get("client")
        if client is None or not self._proxies.is_used or PEER in scope:
            return
        scope[PEER] = client[0]
        forwarded = [str(value, "latin-1") for name, value in scope["headers"] if name == FORWARDED_FOR]
        scope["client"] = (self._proxies.origin_of(client[0], forwarded), client[1])

    def _user_of(self, scope: Scope) -> KnownCaller | None:
        """Whom a proxy has signed in. Raises ApiProblem (400: two of them; 403: for another host)."""
        name = self._proxies.user_header
        if name is None or not self._proxies.trusts(str(scope.get(PEER, ""))):
            return None
        given = only_header(scope, name)
        caller = None if given is None else self._proxies.user(given)
        if caller is None:
            return None
        check_host(scope, self.own_url)
        return KnownCaller(caller, is_of_proxy=True)

    def _find(self, given: str) -> KnownCaller | None:
        """Whose key this is."""
        own = self._admin_key
        if own is not None and hmac.compare_digest(given.encode("utf-8", "replace"), own):
            return KnownCaller(self._admin)
        key = None if self.ring is None else self.ring.find(given)
        return None if key is None else KnownCaller(_caller_of(key), key.expires_at)

    def _session_of(self, scope: Scope) -> KnownCaller | None:
        now = self._now().wall
        for text in session_cookies(scope):
            session = None if self._seal is None else self._seal.read(text, now=now)
            if session is not None and not session.key_id:
                return KnownCaller(Caller(session.tenant, session.role, name=session.name), session.expires)
            found = None if self.ring is None else self.ring.read_session(text)
            if found is not None:
                return KnownCaller(_caller_of(found[0]), found[1])
        return None


def _caller_of(key: AccessKey) -> Caller:
    return Caller(
        tenant=key.tenant,
        role=key.role,
        service=key.service,
        name=key.name,
        key_id=key.key_id,
        labels=key.labels,
        rotations=key.rotations,
    )


def check_tenant(caller: Caller, *, of_platform: bool) -> None:
    """Raises ApiProblem (404) for what is no tenant's own, to callers of another one than `default`."""
    if of_platform and caller.tenant != DEFAULT_TENANT:
        raise absent("", "there is nothing of this tenant here: it is about the whole service")


def check_role(caller: Caller, needed: Role) -> None:
    """Raises ApiProblem (403) if the caller's role does not include `needed`."""
    if not caller.role.includes(needed):
        message = f"this needs the role {needed}; the key's role is {caller.role}"
        raise refuse(HTTPStatus.FORBIDDEN, "/Authorization", "role", message)


def is_loopback(name: str) -> bool:
    """Whether `name` is an address of this machine, or a name that always is (RFC 6761, section 6.3)."""
    if name in OF_THIS_MACHINE or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def is_loopback_host(host: str) -> bool:
    """Whether the value of a `Host` header names this machine, with or without a port."""
    return is_loopback(_name_of(host))


def _check_local(scope: Scope) -> None:
    client = scope.get("client")
    if client is not None and not is_loopback(client[0]):
        raise _not_local(f"the address {client[0]}")
    host = header(scope, b"host") or ""
    if not is_loopback_host(host):
        raise _not_local(f"the host name {host[:80]!r}")
    if (proxied := _find_proxied(scope)) is not None:
        message = (
            f"{proxied} says that a proxy passes this on, perhaps for others; set server.key, or make a key "
            "('punctual keys create'), to serve others"
        )
        raise refuse(HTTPStatus.FORBIDDEN, f"/{proxied}", "loopback_only", message)
    if scope["method"] not in SAFE_METHODS:
        check_origin(scope)


def _find_proxied(scope: Scope) -> str | None:
    """The first header by which a proxy says that it passes a request on."""
    for name, _ in scope["headers"]:
        if name in OF_PROXIES or name.startswith(PREFIXES_OF_PROXIES):
            return str(name.title(), "latin-1")
    return None


def _name_of(host: str) -> str:
    if host.startswith("["):
        name, end, port = host[1:].partition("]")
        return name if end and (not port or port[0] == ":") else ""
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _not_local(what: str) -> ApiProblem:
    message = (
        f"{what} is not of this machine, and there is no key: set server.key, or make one, to serve others"
    )
    return refuse(HTTPStatus.FORBIDDEN, "/Host", "loopback_only", message)


def _bearer(given: str) -> str:
    """The key of an `Authorization` header; empty for another scheme."""
    return given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else ""


def _address_of(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _too_many(wait: int) -> ApiProblem:
    seconds = -(-wait // SECOND)
    message = f"this key is not known, and too many wrong keys were tried; try again in {seconds} s"
    status = HTTPStatus.TOO_MANY_REQUESTS
    return refuse(status, "/Authorization", "limit", message, retry_seconds=seconds)


def _unknown_key(message: str) -> ApiProblem:
    problem = refuse(HTTPStatus.UNAUTHORIZED, "/Authorization", "unauthorized", message)
    problem.headers = (("www-authenticate", 'Bearer realm="punctual"'),)
    return problem
