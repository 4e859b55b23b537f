"""Keys of callers: made, listed, rotated, revoked (SPEC section 14)."""

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import answers
from client_sdk.models.request_bodies import NewKey, Rotation
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.parameters import read_moment
from scheduler_service.api.request import ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import absent, full, invalid, refuse, succeed
from scheduler_service.domain.audit_acts import is_reserved_name
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import AccessKey, Role, id_in
from scheduler_service.domain.moments import SECOND, rfc3339
from scheduler_service.persistence.common.pagination import mark_list, write_cursor
from scheduler_service.security.key_ring import MOST_KEYS, KeyRing, OverlapRunsError

ROUTES = Routes("keys")


@ROUTES.add(
    "POST /keys",
    Role.ADMIN,
    body=PostedBody(NewKey, openapi_examples.NEW_KEY, required=True),
    data=answers.MadeKey,
    success=(201,),
    statuses=(403, 409, 429),
)
async def make_key(request: ApiRequest) -> Response:
    """Make a key; its text is shown this once. An Idempotency-Key has no effect: the text is not kept."""
    ring, wanted = _ring(request), await _read_new(request)
    if not request.deps.security.authentication.needs_key and not _is_whole_admin(wanted):
        message = (
            "with the first key this service asks every caller for one: make that of an admin of the tenant "
            "'default' first, without service and labels"
        )
        raise refuse(HTTPStatus.CONFLICT, "/role", "first_key", message)
    made = ("name", "tenant", "role", "service", "labels")
    request.tell_audit(detail={"given": {name: getattr(wanted, name) for name in made}})
    await request.ask_audit_of(wanted.tenant)
    check_among(ring, wanted)
    key, text = await ring.create(wanted)
    request.tell_audit(subject=key.key_id)
    headers = {"location": f"/keys/{key.key_id}"}
    return succeed(_wire(request, key) | {"key": text}, headers, status=HTTPStatus.CREATED)


@ROUTES.add(
    "GET /keys",
    Role.ADMIN,
    query=(
        parameters.text("tenant", "Of this tenant; else of the caller's own.", example="default"),
        *parameters.paging(),
    ),
    data=answers.Listing[answers.ApiKey],
)
async def list_keys(request: ApiRequest) -> Response:
    """List keys in order of creation, revoked and expired ones too; their texts are not known."""
    tenant, limit = request.query["tenant"] or request.caller.tenant, request.query["limit"]
    _check_tenant(request, tenant)
    mark = mark_list("keys", tenant)
    after = request.place(mark)
    keys = _ring(request).list(tenant)
    start = next((index + 1 for index, key in enumerate(keys) if key.key_id == after), 0)
    found = keys[start : start + limit]
    place = write_cursor(mark, found[-1].key_id) if start + limit < len(keys) else None
    return succeed({"items": [_wire(request, key) for key in found], "nextCursor": place})


@ROUTES.add("GET /keys/{keyId}", Role.ADMIN, data=answers.ApiKey, statuses=(404,))
async def read_key(request: ApiRequest) -> Response:
    """Read a key; its text is not known."""
    return succeed(_wire(request, _find(request)))


@ROUTES.add("DELETE /keys/{keyId}", Role.ADMIN, data=answers.ApiKey, statuses=(404, 409))
async def revoke_key(request: ApiRequest) -> Response:
    """Revoke a key: it ends within a second at every node, with its sessions and open streams."""
    ring, key = _ring(request), _find(request)
    await ring.load()
    _find_way_in(request, key)
    request.tell_audit(changed=key.revoked_at is None)
    await request.ask_audit_of(key.tenant)
    revoked = await ring.revoke(key.key_id, lambda: _find_way_in(request, key))
    assert revoked is not None  # keys are never removed
    return succeed(_wire(request, revoked))


@ROUTES.add(
    "POST /keys/{keyId}/rotate",
    Role.ADMIN,
    body=PostedBody(Rotation, openapi_examples.ROTATION),
    data=answers.MadeKey,
    statuses=(404, 409),
)
async def rotate_key(request: ApiRequest) -> Response:
    """Give a key a new text, shown this once; the old one is valid for `overlapSeconds` more."""
    raw = await request.body()
    posted = read_model(Rotation, read_json(raw)) if raw else Rotation()
    key = _find(request)
    request.tell_audit(detail={"given": {"overlapSeconds": posted.overlap_seconds}})
    await request.ask_audit_of(key.tenant)
    try:
        rotated = await _ring(request).rotate(key.key_id, round(posted.overlap_seconds * SECOND))
    except OverlapRunsError as error:
        raise refuse(HTTPStatus.CONFLICT, "/overlapSeconds", "conflict", str(error)) from error
    if rotated is None:
        message = f"the key {key.key_id} has ended, and stays so; make another one"
        raise refuse(HTTPStatus.CONFLICT, "/keyId", "conflict", message)
    changed, text = rotated
    return succeed(_wire(request, changed) | {"key": text})


def _ring(request: ApiRequest) -> KeyRing:
    return request.deps.security.authentication.ring


async def _read_new(request: ApiRequest) -> AccessKey:
    posted = read_model(NewKey, read_json(await request.body()))
    caller = request.caller
    tenant = posted.tenant or caller.tenant
    _check_tenant(request, tenant)
    return read_new_key(posted, tenant=tenant, created_by=caller.name, now=request.deps.clock.now().wall)


def read_new_key(posted: NewKey, *, tenant: str, created_by: str, now: int) -> AccessKey:
    """The key that is asked for, without id and text. Raises ApiProblem (422) for what no key can be."""
    role = Role(posted.role)
    if is_reserved_name(posted.name):
        message = f"{posted.name!r} is who the service itself or the key of its settings is in the audit"
        raise invalid("/name", "reserved", message)
    if id_in(posted.name) != posted.name:
        raise invalid("/name", "invalid", "the name is the text of a key, which must not be shown")
    if role is Role.ADMIN and (posted.service or posted.labels):
        message = "an admin's key is for the whole tenant: leave service and labels out, or take another role"
        raise invalid("/role", "invalid", message)
    try:
        expires = None if posted.expires_at is None else read_moment(posted.expires_at)
    except ValueError as error:
        raise invalid("/expiresAt", "invalid", f"expiresAt {error}") from None
    if expires is not None and expires <= now:
        raise invalid("/expiresAt", "range", f"expiresAt {posted.expires_at} is not in the future")
    return AccessKey(
        key_id="",
        tenant=tenant,
        name=posted.name,
        role=role,
        digest=b"",
        service=posted.service,
        labels=tuple(posted.labels or ()),
        created_at=now,
        created_by=created_by,
        expires_at=expires,
    )


def check_among(ring: KeyRing, wanted: AccessKey) -> None:
    """Raises ApiProblem (409, 429) for a key that cannot be made beside those that there are."""
    if (like := ring.tenant_like(wanted.tenant)) is not None:
        message = f"the tenant {wanted.tenant!r} differs from {like!r} by case alone; write it as that one"
        raise refuse(HTTPStatus.CONFLICT, "/tenant", "case", message)
    if (known := ring.named_like(wanted)) is not None:
        message = (
            f"the key {known.key_id} has the name {known.name!r}, by which the audit knows it; rotate it, "
            "revoke it first, or take another name"
        )
        raise refuse(HTTPStatus.CONFLICT, "/name", "conflict", message)
    if ring.is_full(wanted.tenant):
        raise full(f"the tenant {wanted.tenant!r} has {MOST_KEYS} living keys; revoke one")


def _check_tenant(request: ApiRequest, tenant: str) -> None:
    """Raises ApiProblem (403) where keys of this tenant are not the caller's to manage."""
    if request.caller.tenant not in (tenant, DEFAULT_TENANT):
        message = (
            f"an admin of the tenant {request.caller.tenant!r} manages its keys alone; leave tenant out, or "
            f"ask an admin of the tenant {DEFAULT_TENANT!r}"
        )
        raise refuse(HTTPStatus.FORBIDDEN, "/tenant", "role", message)


def _find(request: ApiRequest) -> AccessKey:
    """The key that the path names. Raises ApiProblem (404)."""
    key_id = id_in(request.path["keyId"])
    key = _ring(request).read(key_id)
    if key is None or request.caller.tenant not in (key.tenant, DEFAULT_TENANT):
        raise absent("/keyId", f"there is no key {key_id[:64]!r}")
    return key


def _find_way_in(request: ApiRequest, key: AccessKey) -> AccessKey | None:
    """An admin's key that stays when this one ends; None: none is needed.

    Raises ApiProblem (409) where nobody could make keys any more without it, now or when others expire.
    """
    now = request.deps.clock.now().wall
    has_other = request.deps.security.authentication.has_admin_key
    if has_other or not key.lives(now) or not _is_whole_admin(key):
        return None
    others = (one for one in _ring(request).list(DEFAULT_TENANT) if one.key_id != key.key_id)
    lasting = (one for one in others if key.expires_at or not one.expires_at)
    if (found := next((one for one in lasting if _is_whole_admin(one) and one.lives(now)), None)) is not None:
        return found
    message = (
        "this is the last key of an admin of the tenant 'default', but for those that expire: make "
        "another one first; 'punctual keys revoke' on the data folder ends it all the same"
    )
    raise refuse(HTTPStatus.CONFLICT, "/keyId", "last_admin", message)


def _is_whole_admin(key: AccessKey) -> bool:
    return key.tenant == DEFAULT_TENANT and key.role is Role.ADMIN


def _wire(request: ApiRequest, key: AccessKey) -> dict[str, Any]:
    return key_wire(key, request.deps.clock.now().wall)


def key_wire(key: AccessKey, now: int) -> dict[str, Any]:
    """A key as `client_sdk.models.answers.ApiKey` has it: nothing of its text."""
    state = "revoked" if key.revoked_at is not None else "living" if key.lives(now) else "expired"
    return {
        "keyId": key.key_id,
        "name": key.name,
        "tenant": key.tenant,
        "role": key.role.value,
        "kind": "service" if key.service else "person",
        "service": key.service,
        "labels": list(key.labels),
        "state": state,
        "createdAt": rfc3339(key.created_at),
        "createdBy": key.created_by,
        "expiresAt": _moment(key.expires_at),
        "lastUsedAt": _moment(key.last_used_at),
        "revokedAt": _moment(key.revoked_at),
        "rotations": key.rotations,
        "earlierUntil": _moment(key.earlier_until if key.has_earlier(now) and key.lives(now) else None),
    }


def _moment(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)
