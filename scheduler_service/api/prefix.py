"""Finds the path prefix under which browsers see this service: a proxy's, or that of its server."""

import re
from urllib.parse import quote

from starlette.types import Scope

from scheduler_service.api.bodies import header

HEADER = b"x-forwarded-prefix"
LONGEST = 200
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+/?")


def public_prefix(scope: Scope) -> str:
    """The prefix before all paths of the service, without a slash at its end; mostly empty.

    `X-Forwarded-Prefix` counts where it is a plain path (`/tools/punctual`), else the `root_path` of the ASGI
    server. The result may stand in a `Location`, a `Path` of a cookie and, escaped, in HTML: it is never an
    address of another machine.
    """
    said = header(scope, HEADER)
    if said is not None and len(said) <= LONGEST and _PREFIX.fullmatch(said):
        return said.rstrip("/")
    root = str(scope.get("app_root_path", scope.get("root_path", "")))
    return quote("/" + root.strip("/"), safe="/~") if root.strip("/") else ""
