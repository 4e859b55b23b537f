"""Finds the caller of a request: by its key where one is configured, else this machine (SPEC section 14)."""

import hmac
from collections.abc import Callable
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import Scope

from scheduler_service.api.bodies import header
from scheduler_service.api.responses import ApiProblem, refuse
from scheduler_service.security.callers import Caller, Role

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OF_PROXIES = frozenset({b"forwarded", b"via", b"x-real-ip"})
BEARER = "bearer "
KEY_NAME = "admin"
"""The name of the key in the settings."""

Authenticate = Callable[[Scope, bool], Caller]
"""Takes a request's scope, and whether its operation is open. Raises ApiProblem (401, 403)."""


class Authentication:
    """Checks a request before anything else is done with it.

    With `admin_key` every request carries it as `Authorization: Bearer …`; open operations need none.
    Without a key, the peer's address and the name in `Host` must be of this machine, no proxy may say that it
    passes the request on, and one that changes something must not come from a web page of another origin.
    Every caller is an admin of `tenant` and has the name of the key, or of this machine's `user`.
    """

    def __init__(self, *, admin_key: str | None, tenant: str, user: str) -> None:
        self._admin_key = None if admin_key is None else admin_key.encode()
        self._admin = Caller(tenant, Role.ADMIN, name=user if admin_key is None else KEY_NAME)

    def __call__(self, scope: Scope, is_open: bool) -> Caller:
        """The caller of the request. Raises ApiProblem (401, 403)."""
        if self._admin_key is None:
            _check_local(scope)
        elif not is_open:
            self._check_key(scope, self._admin_key)
        return self._admin

    def _check_key(self, scope: Scope, expected: bytes) -> None:
        given = header(scope, b"authorization") or ""
        key = given[len(BEARER) :].strip() if given[: len(BEARER)].lower() == BEARER else ""
        if not hmac.compare_digest(key.encode(), expected):
            raise _unknown_key(bool(given))


def check_role(caller: Caller, needed: Role) -> None:
    """Raises ApiProblem (403) if the caller's role does not include `needed`."""
    if not caller.role.includes(needed):
        message = f"this needs the role {needed}; the key's role is {caller.role}"
        raise refuse(HTTPStatus.FORBIDDEN, "/Authorization", "role", message)


def is_loopback(name: str) -> bool:
    """Whether `name` is an address of this machine, or a name that always is (RFC 6761, section 6.3)."""
    if name == "localhost" or name.endswith(".localhost"):
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
            f"{proxied} says that a proxy passes this on, perhaps for others; set server.key to serve others"
        )
        raise refuse(HTTPStatus.FORBIDDEN, f"/{proxied}", "loopback_only", message)
    origin = header(scope, b"origin")
    if origin is not None and scope["method"] not in SAFE_METHODS and not _is_same_origin(origin, host):
        message = f"the page {origin[:80]!r} may not change anything here"
        raise refuse(HTTPStatus.FORBIDDEN, "/Origin", "origin", message)


def _find_proxied(scope: Scope) -> str | None:
    """The first header by which a proxy says that it passes a request on."""
    for name, _ in scope["headers"]:
        if name in OF_PROXIES or name.startswith(b"x-forwarded-"):
            return str(name.title(), "latin-1")
    return None


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _not_local(what: str) -> ApiProblem:
    message = f"{what} is not of this machine, and no key is configured: set server.key to serve others"
    return refuse(HTTPStatus.FORBIDDEN, "/Host", "loopback_only", message)


def _unknown_key(is_given: bool) -> ApiProblem:
    message = "this key is not known" if is_given else "a key is needed: send 'Authorization: Bearer KEY'"
    problem = refuse(HTTPStatus.UNAUTHORIZED, "/Authorization", "unauthorized", message)
    problem.headers = (("www-authenticate", 'Bearer realm="punctual"'),)
    return problem
