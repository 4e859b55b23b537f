"""punctual db: the formats of a data folder (SPEC section 16)."""

import json
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from scheduler_service.app.data_folder import history_address
from scheduler_service.domain.keys_and_roles import AccessKey
from scheduler_service.maintenance.database_keys import make_key, revoke_key, rotate_key
from scheduler_service.maintenance.doctor_folder import examine_jobs
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.persistence.tables.key_secret_calendar_tables import SqlCalendarTable, read_keys
from scheduler_service.settings import Settings, load_settings
from tests.rows import each_row
from tests.unit.cli.running import Ran
from tests.unit.maintenance.subjects import states, subject
from tests.unit.persistence.samples import commit

SHOP = {"jobName": "j", "request": [{"url": "http://${SHOP}/run"}], "timer": {"period": "1h"}}
PLAIN = {**SHOP, "request": [{"url": "http://shop.test/run"}]}


def test_a_folder_that_no_service_has_used_is_not_to_be_migrated(ran: Ran) -> None:
    """A wrong `--data` is the likely cause: a migration would make an empty folder there."""
    code, _, said = ran("db", "check", "--data", "none")
    assert (code, "--data" in said, "migrate" in said) == (1, True, False), said
    assert not Path("none").exists()


def test_jobs_that_cannot_run_under_the_settings_are_named(ran: Ran, tmp_path: Path) -> None:
    """Without a service, by `db check` and by `doctor`: they say what a start would find."""
    migrate_folder(tmp_path, history_address(Settings(), tmp_path))

    async def fill() -> None:
        store = await SqliteStateStore.open(folder=tmp_path)
        for job_id, definition in (("plain", PLAIN), ("shop", SHOP)):
            text = msgspec.json.encode({**definition, "jobId": job_id})
            await store.commit(commit(job_id, document=None, definition=text))
        assert await examine_jobs(subject(tmp_path)) == [], "a service uses the folder, and is asked"
        await store.close()

    anyio.run(fill)
    code, _, said = ran("db", "check", "--data", str(tmp_path))
    assert (code, "job shop cannot run" in said, "job plain" in said) == (0, True, False), said
    well = subject(tmp_path, env={"default": {"SHOP": "shop.test"}})
    assert states(anyio.run(examine_jobs, well)) == {"run": "ok"}
    assert states(anyio.run(examine_jobs, subject(tmp_path))) == {"job shop": "warning"}
    cut = anyio.run(partial(examine_jobs, well, seconds=-1.0))
    assert states(cut) == {"run": "warning"}, "what was not looked at is not said to be well"


def test_jobs_have_the_calendars_of_their_folder(ran: Ran, tmp_path: Path) -> None:
    """One whose calendar is missing is named, and a calendar that lists no day of this year."""
    address = history_address(Settings(), tmp_path)
    migrate_folder(tmp_path, address)

    async def fill() -> None:
        database = HistoryDatabase(url=address)
        table = SqlCalendarTable(database=database)
        await table.put("default", "office", b'{"free": ["2001-01-01"]}', 1)
        await table.put("default", "gone", b"-{}", 1)
        await table.close()
        database.close()
        store = await SqliteStateStore.open(folder=tmp_path)
        for name in ("office", "gone"):
            timer = {"period": "0 0 9 * * ?", "calendar": name}
            text = msgspec.json.encode({**PLAIN, "jobId": name, "timer": timer})
            await store.commit(commit(name, document=None, definition=text))
        await store.close()

    anyio.run(fill)
    _, _, said = ran("db", "check", "--data", str(tmp_path))
    assert ("job gone cannot run: there is no calendar" in said, "job office" in said) == (True, False), said
    assert states(anyio.run(examine_jobs, subject(tmp_path))) == {
        "job gone": "warning", "calendar office": "warning",
    }  # fmt: skip


@pytest.mark.parametrize("command", ["repair", "backup", "restore"])
@each_row(
    ("history", "way"),
    [
        ("", ""),
        ("sqlite:////srv/old.db", "; the history is in the file /srv/old.db: copy it, and old.db-wal"),
        (
            "mariadb://me@127.0.0.1:1/x",
            "; the history is in that of database.url: the same, with mariadb-dump",
        ),
    ],
)
def test_a_database_server_is_saved_by_its_own_program(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, history: str, way: str
) -> None:
    """Commands for files say so, also where the history is elsewhere, and do nothing (SPEC section 15)."""
    monkeypatch.setenv("PUNCTUAL_STORE__URL", "postgresql://nobody@127.0.0.1:1/none")
    if history:
        monkeypatch.setenv("PUNCTUAL_DATABASE__URL", history)
    code, _, said = ran("db", command, *([] if command == "repair" else ["backup"]))
    assert (code, f"save and restore it with pg_dump{way}" in said) == (2, True), said
    assert ("the history" in said) is bool(history), said
    assert not list(tmp_path.iterdir())


def test_the_tables_of_a_server_are_migrated_and_checked(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_server: str
) -> None:
    """Those of the jobs and those of the history; without a folder."""
    monkeypatch.setenv("PUNCTUAL_STORE__URL", each_server)
    code, _, said = ran("db", "check")
    assert (code, said.count("it has no tables yet")) == (1, 2), said
    assert ran("db", "migrate")[0] == 0
    code, _, said = ran("db", "check")
    assert (code, "the database of store.url is up to date" in said) == (0, True), said
    assert not list(tmp_path.iterdir())


def test_a_restore_says_which_keys_are_valid_again(ran: Ran, tmp_path: Path) -> None:
    """With the folder that it replaces, what was revoked or rotated there stays so (SPEC section 14)."""
    data = tmp_path / "data"
    migrate_folder(data, history_address(Settings(), data))
    settings = load_settings({"store.data": str(data)}, {}).settings
    stays, gone, turned = [make_key(settings, {"name": name, "role": "admin"}) for name in NAMES]
    assert ran("db", "backup", "made", "--data", str(data))[0] == 0
    revoke_key(settings, gone["keyId"])
    rotate_key(settings, turned["keyId"], 0)
    fresh = make_key(settings, {"name": "since", "role": "admin"})

    def restored(name: str, *options: str) -> tuple[str, dict[str, AccessKey], Any]:
        code, _, said = ran("db", "restore", "made", "--data", name, *options)
        assert code == 0, said
        address = f"sqlite:///{tmp_path / name}/history.db"
        with closing(sqlite3.connect(tmp_path / name / "history.db")) as connection:
            (detail,) = connection.execute("SELECT detail FROM audit WHERE operation = 'restore'").fetchone()
        return said, {key.key_id: key for key in read_keys(url=address)}, json.loads(detail)["given"]

    said, found, audited = restored("bare")
    for one in (stays, gone, turned):
        assert f"key {one['keyId']} ({one['name']} of default)" in said
        assert one["keyId"] in audited["keysValid"]
    assert found[gone["keyId"]].revoked_at is None
    said, found, audited = restored("carried", "--replaces", str(data))
    assert f"key {gone['keyId']} (gone of default) was revoked since, and stays so" in said
    assert f"key {turned['keyId']} (turned of default) was rotated since, and stays so" in said
    assert (stays["keyId"] in said, fresh["keyId"] in found) == (False, False)
    assert set(audited["keysEnded"]) == {gone["keyId"], turned["keyId"]}
    before = {key.key_id: key for key in read_keys(url=f"sqlite:///{data}/history.db")}
    assert found == {key_id: before[key_id] for key_id in found}
    code, _, said = ran("db", "restore", "made", "--data", "wrong", "--replaces", str(tmp_path))
    assert (code, "name the data folder that the restored one replaces" in said) == (3, True), said
    assert not (tmp_path / "wrong" / "history.db").exists()
    assert ran("db", "backup", "later", "--data", str(data))[0] == 0
    code, _, said = ran("db", "restore", "later", "--data", "wrong", "--replaces", "bare")
    assert (code, "is older than the backup" in said, "leave --replaces out" in said) == (3, True, True), said


NAMES = ("stays", "gone", "turned")
