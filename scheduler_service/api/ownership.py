"""The service that owns a job which is created over the API (SPEC section 9)."""

import re

from client_sdk.models.services import SERVICE_NAME
from scheduler_service.api.bodies import header
from scheduler_service.api.request import FORM_OF_NAME, ApiRequest
from scheduler_service.api.responses import invalid

OWNER_HEADER = "X-Service"
_NAME = re.compile(SERVICE_NAME[1:-1])


def read_owner(request: ApiRequest) -> str:
    """The service whose key, or whose header `X-Service`, creates or updates a job; empty: no service.

    Raises ApiProblem (422) for a header that is no name, or names another service than the key.
    """
    named = header(request.scope, OWNER_HEADER.lower().encode()) or ""
    if named and _NAME.fullmatch(named) is None:
        message = f"{OWNER_HEADER} {named[:140]!r} is no name of a service; use 1 to 128 of {FORM_OF_NAME}"
        raise invalid(f"/{OWNER_HEADER}", "pattern", message)
    of_key = request.caller.service or ""
    if named and of_key and named != of_key:
        message = f"{OWNER_HEADER} {named!r} is not the service of the key, {of_key!r}; leave the header out"
        raise invalid(f"/{OWNER_HEADER}", "invalid", message)
    return of_key or named
