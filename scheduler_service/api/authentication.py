"""Finds the caller of a request: by key, session, or as this machine without a key (SPEC section 14)."""

import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from starlette.types import Scope

from client_sdk.proxy_headers import OF_PROXIES, PREFIXES_OF_PROXIES
from scheduler_service.api.bodies import header, only_header
from scheduler_service.api.responses import ApiProblem, absent, refuse
from scheduler_service.api.session_cookies import (
    SESSION_MS,
    check_console,
    check_host,
    check_origin,
    session_cookies,
)
from scheduler_service.domain.audit_acts import START_KEY
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import AccessKey
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.security.callers import Caller, Role, Session, SessionSeal
from scheduler_service.security.key_ring import KeyRing, digest_session
from scheduler_service.security.trusted_proxies import Proxies, read_address
from scheduler_service.security.wrong_keys import WrongKeys

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OF_PROXIES = frozenset(name.encode() for name in OF_PROXIES)
_PREFIXES_OF_PROXIES = tuple(name.encode() for name in PREFIXES_OF_PROXIES)
BEARER = "bearer "
ENDED = "the key or the session has ended, or the first key was made"
OF_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
"""The names of this machine that nearly every local caller uses: to parse an address takes 10 µs."""

PEER = "punctual.peer"
"""Where a scope has the address of its connection, where that is a proxy's, too."""
FORWARDED_FOR = b"x-forwarded-for"

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
        ring: KeyRing,
        proxies: Proxies | None = None,
    ) -> None:
        self._own_url = own_url
        self._admin_key = None if admin_key is None else admin_key.encode()
        self._admin = Caller(tenant, Role.ADMIN, name=START_KEY, is_operator=True)
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
        return self.ring.is_used or self.has_admin_key or self._proxies.user_header is not None

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

    def has_key_of(self, scope: Scope, tenant: str) -> bool:
        """Whether the request brings a key of this tenant, or none is needed; a session is no key."""
        given = header(scope, b"authorization")
        known = None if given is None else self._find(_bearer(given))
        return not self.needs_key or (known is not None and known.caller.tenant == tenant)

    def count_wrong_key(self, scope: Scope, what: str = "key") -> None:
        """One more wrong key, or wrong `what`, came. Raises ApiProblem (429) where there were too many.

        Nothing is awaited, so that of many at one moment each is counted.
        """
        address, now = _address_of(scope), self._now().steady
        if wait := self._wrong_keys.wait(address, now):
            raise _too_many(wait, what)
        self._wrong_keys.fail(address, now)

    def open_session(self, key: str, scope: Scope) -> tuple[KnownCaller, str] | None:
        """A session of whoever has this key, with its text for the cookie; None: the key is not known.

        The wrong keys of its address are forgotten: a person has mistyped. A session ends with its key.
        """
        if (known := self._find(key)) is None:
            return None
        self._wrong_keys.succeed(_address_of(scope))
        caller, end = known.caller, self._now().wall + SESSION_MS
        expires = end if known.expires is None else min(end, known.expires)
        session = Session(caller.tenant, caller.role, caller.name, expires, caller.key_id, caller.rotations)
        if caller.key_id:
            text = self.ring.write_session(key, session)
        else:
            assert self._seal is not None, "it has the key of the settings, which makes the seal"
            text = self._seal.write(session)
        return KnownCaller(caller, expires), text

    async def close_sessions(self, scope: Scope) -> None:
        """Ends the sessions in the request's cookies, with what waits in them, everywhere within a second.

        Raises StoreUnavailable.
        """
        for text in session_cookies(scope):
            if (known := self._read_session(text)) is not None:
                caller = known.caller
                await self.ring.end_session(caller.key_id, caller.session, caller.session_end)

    @asynccontextmanager
    async def watching(self, caller: Caller) -> AsyncIterator[None]:
        """What waits inside is refused within a second of the end of the key, or of the session.

        Of a caller without a key: when the first key is there, as callers need one from then on.
        Raises ApiProblem (401).
        """
        if not self._may_end(caller):
            yield
            return
        try:
            async with self.ring.watching(caller):
                yield
        except TimeoutError:
            raise _unknown_key(ENDED) from None

    def check_ended(self, caller: Caller) -> None:
        """Raises ApiProblem (401) where the key or session of a caller that was let in has ended since."""
        if self._may_end(caller) and self.ring.is_over(caller):
            raise _unknown_key(ENDED)

    def _may_end(self, caller: Caller) -> bool:
        return bool(caller.key_id or caller.session) or caller is self._local

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
        key = self.ring.find(given)
        return None if key is None else KnownCaller(_caller_of(key), key.expires_at)

    def _session_of(self, scope: Scope) -> KnownCaller | None:
        return next(filter(None, map(self._read_session, session_cookies(scope))), None)

    def _read_session(self, text: str) -> KnownCaller | None:
        """Who has signed in, as long as that holds."""
        digest = digest_session(text)
        session = None if self._seal is None else self._seal.read(text, now=self._now().wall)
        if session is not None and not session.key_id:  # opened with the key in the settings
            if self.ring.has_ended("", digest):
                return None
            caller, end = (
                Caller(session.tenant, session.role, name=session.name, is_operator=True),
                session.expires,
            )
        elif (found := self.ring.read_session(text)) is not None:
            caller, end = _caller_of(found[0]), found[1]
        else:
            return None
        return KnownCaller(msgspec.structs.replace(caller, session=digest, session_end=end), end)


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
    address = read_address(name)
    return address is not None and address.is_loopback


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
        if name in _OF_PROXIES or name.startswith(_PREFIXES_OF_PROXIES):
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


def _too_many(wait: int, what: str) -> ApiProblem:
    seconds = -(-wait // SECOND)
    message = f"this {what} is not known, and too many wrong {what}s were tried; try again in {seconds} s"
    status = HTTPStatus.TOO_MANY_REQUESTS
    return refuse(
        status, "/Authorization" if what == "key" else f"/{what}", "limit", message, retry_seconds=seconds
    )


def _unknown_key(message: str) -> ApiProblem:
    problem = refuse(HTTPStatus.UNAUTHORIZED, "/Authorization", "unauthorized", message)
    problem.headers = (("www-authenticate", 'Bearer realm="punctual"'),)
    return problem
