"""punctual db: the formats of a data folder (SPEC section 16)."""

from functools import partial
from pathlib import Path

import anyio
import msgspec

from scheduler_service.app.data_folder import history_address
from scheduler_service.maintenance.examined_folder import examine_jobs
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.settings import Settings
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
