"""Commands on a data folder are in its audit, with the name of the machine's user (SPEC section 14)."""

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from scheduler_service.app.local_service import open_service
from scheduler_service.app.process_setup import machine_user
from scheduler_service.domain.audit_acts import ActKind, OwnAct
from scheduler_service.maintenance.audited_commands import audited_command, note_command
from scheduler_service.maintenance.database_keys import (
    NoKeyError,
    list_keys,
    make_key,
    revoke_key,
    rotate_key,
)
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.tables.audit_lines import SqlAudit
from scheduler_service.ports.audit import AuditQuery
from scheduler_service.settings import Settings, load_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def history(tmp_path: Path) -> str:
    """The address of an empty history."""
    address = f"sqlite:///{tmp_path}/history.db"
    HistoryDatabase(url=address).close()
    return address


async def lines(address: str, tenant: str = "default") -> list[Mapping[str, object]]:
    """The lines of a tenant's audit, the newest first."""
    database = HistoryDatabase(url=address)
    audit = SqlAudit(database=database)
    try:
        return list((await audit.page(AuditQuery(tenant=tenant)))[0])
    finally:
        await audit.close()
        database.close()


async def test_what_a_command_has_done_is_in_the_audit(history: str) -> None:
    """As a restore says from which moment the state is."""
    assert note_command(history, OwnAct.RESTORE, {"madeAt": "2026-01-01T00:00:00.000Z"})
    (line,) = await lines(history)
    assert (line["operation"], line["via"], line["outcome"]) == ("restore", "command", "done")
    assert (line["who"], line["given"]) == (machine_user(), {"madeAt": "2026-01-01T00:00:00.000Z"})


def test_a_history_of_another_version_is_left_as_it_is(tmp_path: Path) -> None:
    """A line would migrate it, or make one where there is none."""
    assert not note_command(f"sqlite:///{tmp_path}/none.db", OwnAct.RESTORE, {})
    assert not (tmp_path / "none.db").exists()


async def test_a_restore_of_an_older_history_is_in_the_audit_after_its_first_start(tmp_path: Path) -> None:
    """Which brings the tables up to date; the folder that it was in has nothing more of it."""
    history = f"sqlite:///{tmp_path}/history.db"
    settings = load_settings({"store.data": str(tmp_path)}, {})

    async def start_once() -> None:
        service = await open_service(settings, served="http://127.0.0.1:8000", log=lambda *_, **__: None)
        await service.start()
        await service.stop(0)

    await start_once()
    with sqlite3.connect(tmp_path / "history.db") as connection:
        head = connection.execute("SELECT version_num FROM history_version").fetchone()
        connection.execute("UPDATE history_version SET version_num = '0001'")
    for number in (1, 2):
        assert note_command(history, OwnAct.RESTORE, {"madeAt": f"2026-01-0{number}T00:00:00.000Z"})
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("UPDATE history_version SET version_num = ?", head)
    before = sorted(path.name for path in tmp_path.iterdir())
    await start_once()
    await start_once()
    found = [one for one in await lines(history) if one["operation"] == "restore"]
    assert [one["given"]["madeAt"][:10] for one in found] == ["2026-01-02", "2026-01-01"]  # type: ignore[index]
    left = [name for name in before if not (tmp_path / name).exists()]
    assert left == ["audit-left.jsonl"]


async def test_a_command_that_fails_says_so(history: str) -> None:
    """It was asked for before anything was done."""
    database, asked = HistoryDatabase(url=history), []

    async def revoke() -> None:
        with audited_command(database, "revokeKey", kind=ActKind.KEY, subject="k1"):
            asked.extend(await lines(history))
            raise ValueError("no such key")

    with pytest.raises(ValueError, match="no such key"):
        await revoke()
    database.close()
    (line,) = await lines(history)
    assert ([one["outcome"] for one in asked], line["outcome"]) == (["asked"], "refused")
    assert line["subject"] == "k1"


async def test_a_key_of_a_tenant_is_changed_in_its_own_audit(tmp_path: Path) -> None:
    """That of `default` has nothing of it but what was asked of a key that nobody has, which changes none."""
    settings = Settings(store={"data": str(tmp_path)})
    made = await asyncio.to_thread(make_key, settings, {"name": "anna", "role": "admin", "tenant": "acme"})
    await asyncio.to_thread(rotate_key, settings, made["keyId"], 0)
    for change in (revoke_key, lambda *given: rotate_key(*given, 0)):
        with pytest.raises(NoKeyError, match="there is no living key '0000000000000000'"):
            await asyncio.to_thread(change, settings, "0" * 16)
    await asyncio.to_thread(revoke_key, settings, made["keyId"])
    with pytest.raises(NoKeyError, match="there is no living key"):
        await asyncio.to_thread(rotate_key, settings, made["keyId"], 0)
    history = f"sqlite:///{tmp_path}/history.db"
    found = [(one["operation"], one["outcome"], one["subject"]) for one in await lines(history, "acme")]
    key_id = made["keyId"]
    assert found == [
        ("rotateKey", "refused", key_id),
        ("revokeKey", "done", key_id),
        ("rotateKey", "done", key_id),
        ("makeKey", "done", key_id),
    ]
    refused = [(one["outcome"], one["subject"]) for one in await lines(history)]
    assert refused == [("refused", "0" * 16)] * 2
    listed = await asyncio.to_thread(list_keys, settings, "acme")
    assert [(one["keyId"], one["state"]) for one in listed] == [(key_id, "revoked")]
    assert await asyncio.to_thread(list_keys, settings, "nobody") == []


def test_keys_that_are_made_without_a_server_are_in_the_audit(tmp_path: Path) -> None:
    """Each change with the key's id, and nothing of its text; a list is none."""
    settings = Settings(store={"data": str(tmp_path)})
    made = make_key(settings, {"name": "anna", "role": "admin"})
    rotated = rotate_key(settings, made["keyId"], 0)
    revoke_key(settings, made["keyId"])
    list_keys(settings, None)
    database = HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db")
    with database.reading() as connection:
        found = connection.exec_driver_sql(
            "SELECT operation, subject, who, via, outcome FROM audit ORDER BY at"
        ).all()
    database.close()
    assert sorted(found) == sorted(
        (name, made["keyId"], machine_user(), "command", "done")
        for name in ("makeKey", "rotateKey", "revokeKey")
    )
    kept = (tmp_path / "history.db").read_bytes()
    assert made["key"].encode() not in kept
    assert rotated["key"].encode() not in kept
