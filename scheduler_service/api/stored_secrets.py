"""Secrets of the caller's tenant: stored, listed and removed, never shown (SPEC section 14)."""

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import answers
from client_sdk.models.request_bodies import NewSecret
from scheduler_service.api import openapi_examples
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.request import ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import absent, full, invalid, refuse, succeed
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.secret_places import SECRET_NAME
from scheduler_service.security.callers import Role
from scheduler_service.security.secret_vault import MOST_SECRETS, SecretVault
from scheduler_service.security.secrets import MOST_VALUES, KnownSecret, read_values

ROUTES = Routes("secrets")


@ROUTES.add("GET /secrets", Role.EDITOR, data=answers.SecretList)
async def list_secrets(request: ApiRequest) -> Response:
    """List the secrets of the caller's tenant by name, with their source and dates; no value is shown."""
    vault = request.deps.security.secret_vault
    if vault is not None:
        await vault.look()
    items = [_wire(one) for one in request.deps.security.secrets.list(request.caller.tenant)]
    return succeed({"items": items, "canStore": vault is not None})


@ROUTES.add(
    "PUT /secrets/{secretName}",
    Role.ADMIN,
    body=PostedBody(NewSecret, openapi_examples.NEW_SECRET, required=True),
    data=answers.Secret,
    statuses=(409, 429),
)
async def put_secret(request: ApiRequest) -> Response:
    """Store a secret, or replace it: encrypted, and never shown. It counts at all nodes within a second."""
    name, tenant, vault = _read_name(request), request.caller.tenant, _vault(request)
    values = await _read_posted(request, vault, name)
    if vault.is_full(tenant, name):
        message = f"the tenant {tenant!r} has {MOST_SECRETS} stored secrets; remove one"
        raise full(message)
    await vault.put(tenant, name, values)
    known = _find(request, name)
    warnings = []
    if known.source != "stored":
        message = f"{name} of the {known.source} decides; what is stored counts when that is removed"
        warnings.append(Problem("/secretName", "shadowed", message))
    return succeed(_wire(known), warnings=warnings)


@ROUTES.add("DELETE /secrets/{secretName}", Role.ADMIN, statuses=(404, 409))
async def delete_secret(request: ApiRequest) -> Response:
    """Remove a stored secret. Attempts that name it fail from now on, unless another source has it."""
    name, vault = _read_name(request), _vault(request)
    if not await vault.remove(request.caller.tenant, name):
        raise absent("/secretName", f"there is no stored secret {name!r}")
    return succeed(None)


def _vault(request: ApiRequest) -> SecretVault:
    vault = request.deps.security.secret_vault
    if vault is None:
        message = (
            "no secret is stored without a key to encrypt it: set secrets_key_file (or secrets_key) to 32 "
            "random bytes in base64, as of 'openssl rand -base64 32', at every node; or use secrets_dir"
        )
        raise refuse(HTTPStatus.CONFLICT, "", "no_secrets_key", message)
    return vault


def _read_name(request: ApiRequest) -> str:
    """The name in the path. Raises ApiProblem (422)."""
    name = request.path["secretName"]
    if not SECRET_NAME.fullmatch(name):
        text = "begin with a letter or '_', then use letters, digits, '_' and '-', at most 128"
        raise invalid("/secretName", "pattern", f"{name[:80]!r} is not a secret's name; {text}")
    return name


async def _read_posted(request: ApiRequest, vault: SecretVault, name: str) -> tuple[str, ...]:
    """The values to store. Raises ApiProblem (422), which repeats none of them."""
    body = read_json(await request.body())
    if not isinstance(body, dict) or "value" not in body:
        raise invalid("/value", "required", "value is required: a text, or a list of two")
    try:
        values = read_values(body["value"])
    except ValueError as error:
        raise invalid("/value", "invalid", str(error)) from None
    posted = read_model(NewSecret, {**body, "value": "****"})  # what is wrong with others is told
    if posted.keep_earlier:
        await vault.look()
        earlier = (one for one in vault.find(request.caller.tenant, name) if one not in values)
        values = (*values, *earlier)[:MOST_VALUES]
    return values


def _find(request: ApiRequest, name: str) -> KnownSecret:
    """The one that decides now. Raises ApiProblem (404): somebody has removed it since."""
    for one in request.deps.security.secrets.list(request.caller.tenant):
        if one.name == name:
            return one
    raise absent("/secretName", f"{name!r} was stored, and somebody has removed it since")


def _wire(secret: KnownSecret) -> dict[str, Any]:
    return {
        "name": secret.name,
        "source": secret.source,
        "values": secret.values,
        "createdAt": None if secret.created_at is None else rfc3339(secret.created_at),
        "updatedAt": None if secret.updated_at is None else rfc3339(secret.updated_at),
    }
