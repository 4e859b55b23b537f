"""Callers' keys, managed in the database itself: no service has to run, and one that runs sees it at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from client_sdk.models.request_bodies import NewKey, Rotation
from scheduler_service.api.bodies import read_model
from scheduler_service.api.keys import check_among, key_wire, read_new_key
from scheduler_service.app.data_folder import HISTORY_FILE, history_address
from scheduler_service.app.process_setup import machine_user
from scheduler_service.domain.audit_acts import ActKind
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import OF_SETTINGS, AccessKey, id_in
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.maintenance.audited_commands import audited_command
from scheduler_service.maintenance.folder_formats import NOT_USED
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.sqlite import file_of
from scheduler_service.persistence.sqlite.folder_lock import check_no_backup
from scheduler_service.persistence.tables.key_secret_calendar_tables import (
    SqlKeyTable,
    living_keys,
    put_key,
    read_keys,
)
from scheduler_service.ports.errors import StoreRefused
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.settings import Settings

Row = dict[str, Any]
T = TypeVar("T")


class NoKeyError(PunctualError):
    """There is no such key, or no database that could have one."""


def make_key(settings: Settings, wanted: Mapping[str, object]) -> Row:
    """A new key in wire form, with its text. Raises StoreError, PunctualError for what no key can be."""

    async def make(ring: KeyRing) -> Row:
        posted = read_model(NewKey, wanted)
        tenant = posted.tenant or DEFAULT_TENANT
        fresh = read_new_key(posted, tenant=tenant, created_by=machine_user(), now=_now())
        check_among(ring, fresh)
        made, text = await ring.create(fresh)
        return key_wire(made, _now()) | {"key": text}

    folder = Path(settings.store.data)
    check_no_backup(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tenant = wanted.get("tenant")
    return _with_ring(settings, make, "makeKey", tenant=tenant if isinstance(tenant, str) else DEFAULT_TENANT)


def list_keys(settings: Settings, tenant: str | None) -> list[Row]:
    """The keys of a tenant in wire form. Raises StoreError, NoKeyError."""

    async def read(ring: KeyRing) -> list[Row]:
        return [key_wire(key, _now()) for key in ring.list(tenant or DEFAULT_TENANT)]

    _check_there(settings)
    return _with_ring(settings, read)


def revoke_key(settings: Settings, key_id: str) -> Row:
    """Ends a key, in wire form. Raises StoreError, NoKeyError."""

    key_id = id_in(key_id)

    async def revoke(ring: KeyRing) -> Row:
        if (key := await ring.revoke(key_id)) is None:
            raise _no_key(key_id)
        return key_wire(key, _now())

    _check_there(settings)
    return _with_ring(settings, revoke, "revokeKey", key_id)


def rotate_key(settings: Settings, key_id: str, overlap_seconds: float) -> Row:
    """Gives a key a new text, in wire form with that. Raises StoreError, NoKeyError, OverlapRunsError.

    ApiProblem for an overlap that no rotation can have.
    """
    posted, key_id = read_model(Rotation, {"overlapSeconds": overlap_seconds}), id_in(key_id)

    async def rotate(ring: KeyRing) -> Row:
        rotated = await ring.rotate(key_id, round(posted.overlap_seconds * SECOND))
        if rotated is None:
            raise _no_key(key_id)
        key, text = rotated
        return key_wire(key, _now()) | {"key": text}

    _check_there(settings)
    return _with_ring(settings, rotate, "rotateKey", key_id)


def find_living(history: str) -> Sequence[Any]:
    """Id, tenant and name of each key that is valid in the database `history`. Raises StoreError."""
    return living_keys(url=history, now=_now())


def carry_over(history: str, replaced: Path) -> list[AccessKey]:
    """Brings the keys of a restored history to what they are in the folder `replaced`, which stays as it is.

    So what was revoked, rotated or signed out since the backup stays so; keys that were made since are not
    taken over. Returns those that the backup had living, and that were revoked or have a new text.

    Raises StoreError, also where that folder is older than the backup: it would undo nothing, and say so.
    """
    place = replaced / HISTORY_FILE
    if not place.is_file():
        raise StoreRefused(f"{place} is missing: name the data folder that the restored one replaces.")
    before = {key.key_id: key for key in read_keys(url=history)}
    theirs = {key.key_id: key for key in read_keys(url=f"sqlite:///{place}")}
    older = [
        one for one in before.values() if (own := theirs.get(one.key_id)) is None or own.version < one.version
    ]
    if older:
        raise StoreRefused(
            f"{place} is older than the backup, or of another service: the key {older[0].name!r} is newer "
            "in the backup. Name the data folder that was in use last, or leave --replaces out."
        )
    newer = [
        key
        for key in theirs.values()
        if (key.key_id in before and key.version > before[key.key_id].version)
        or (key.key_id == OF_SETTINGS and OF_SETTINGS not in before)
    ]
    if newer:
        database = HistoryDatabase(url=history)
        try:
            with database.writing() as connection:
                for key in newer:
                    put_key(connection, key)
        finally:
            database.close()
    now = _now()
    return [
        key
        for key in newer
        if (known := before.get(key.key_id)) is not None
        and known.lives(now)
        and (key.revoked_at is not None or key.rotations > known.rotations)
    ]


def _with_ring(
    settings: Settings,
    work: Callable[[KeyRing], Awaitable[T]],
    operation: str = "",
    key_id: str = "",
    tenant: str = DEFAULT_TENANT,
) -> T:
    """The result of `work`; a change is an `operation`, in the audit of the key's tenant before."""

    async def run() -> T:
        database = HistoryDatabase(url=_address(settings), durability=settings.store.durability)
        table = SqlKeyTable(database=database)
        try:
            ring = KeyRing(table=table, clock=SystemClock(skew=0, on_step=_ignore_step))
            await ring.load()
            if not operation:
                return await work(ring)
            key = ring.read(key_id)
            own = tenant if key is None else key.tenant
            with audited_command(database, operation, kind=ActKind.KEY, subject=key_id, tenant=own) as known:
                result = await work(ring)
                if isinstance(result, dict):
                    known.update(subject=result["keyId"])
                return result
        finally:
            await table.close()
            database.close()

    return asyncio.run(run())


def _address(settings: Settings) -> str:
    return history_address(settings, Path(settings.store.data))


def _check_there(settings: Settings) -> None:
    place = file_of(_address(settings))
    if place is not None and not place.is_file():
        raise NoKeyError(f"{place} is missing: {NOT_USED}")


def _no_key(key_id: str) -> NoKeyError:
    return NoKeyError(f"there is no living key {key_id!r}")


def _now() -> int:
    return round(time.time() * SECOND)


async def _ignore_step(skew: int) -> None:
    """Nothing waits for a moment."""
