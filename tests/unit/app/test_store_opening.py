"""Where a service keeps the contexts of qos 1."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.store_opening import (
    StoreWatch,
    check_workers,
    keep_contexts,
    open_contexts,
    open_store,
    shard_of,
    worker_configs,
)
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreRefused, StoreUnavailable
from scheduler_service.settings import LoadedSettings, Settings, SettingsError
from scheduler_service.system_jobs.system_job_definitions import NAMES
from scheduler_service.telemetry.log_events import VOCABULARY
from tests.manual_clock import ManualClock
from tests.redis_server import APPENDING, SYNCING, RedisServer
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_REDIS = """
import sys
sys.modules["redis"] = None
from scheduler_service.__main__ import main
sys.argv = ["punctual", "serve", "--port", "0", "--data", ":memory:"]
main()
"""


def test_a_package_that_is_missing_is_named() -> None:
    """With the extra that brings it, and exit code 3 (SPEC section 16)."""
    command = [sys.executable, "-c", WITHOUT_REDIS]
    environ = os.environ | {"COLUMNS": "500", "PUNCTUAL_CONTEXTS__URL": "redis://127.0.0.1:1"}
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=environ)
    assert ended.returncode == 3, ended.stderr
    assert "in a checkout of Punctual: pip install '.[service,redis]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("url", [None, "sql"])
async def test_contexts_in_the_row_cost_nothing(url: str | None) -> None:
    """The store is what it was, without anything before it."""
    store = await SqliteStateStore.open(folder=None)
    settings = Settings.model_validate({"contexts": {"url": url}})
    assert await keep_contexts(settings, store, log=lambda *_, **__: None, is_own=lambda _: True) is store
    await store.close()


async def test_contexts_of_a_cluster_are_refused_elsewhere() -> None:
    """With what to write instead."""
    store = await SqliteStateStore.open(folder=None)
    settings = Settings.model_validate({"contexts": {"url": "dapr"}})
    with pytest.raises(SettingsError, match="--runtime dapr"):
        await keep_contexts(settings, store, log=lambda *_, **__: None, is_own=lambda _: True)


async def test_a_server_that_may_lose_contexts_is_logged_with_what_to_set(tmp_path: Path) -> None:
    """A warning each at the start; of one that syncs, and has them of this node alone, there is none."""
    server = RedisServer(tmp_path, *SYNCING).start()
    settings = Settings.model_validate({"contexts": {"url": server.url}})
    lines: list[tuple[str, object]] = []

    async def say(owner: str) -> list[tuple[str, object]]:
        lines.clear()
        contexts, _ = await open_contexts(
            settings, owner=owner, log=lambda word, **keys: lines.append((word, keys["warning"]))
        )
        await contexts.close()
        return lines

    try:
        assert await say("one") == []
        ((word, warning),) = await say("two")
        assert (word, VOCABULARY[word].level) == ("contexts_unsafe", "warning")
        assert "use a database for each" in str(warning)
        server.kill()
        server.start(*APPENDING)
        ((word, warning),) = await say("one")
        assert (word, "appendfsync is everysec; set always" in str(warning)) == ("contexts_unsafe", True)
    finally:
        server.kill()


async def test_jobs_of_a_folder_are_not_left_behind(tmp_path: Path) -> None:
    """A service over a server does not start beside them, and lets go of the folder (SPEC section 15)."""
    await (await SqliteStateStore.open(folder=tmp_path)).close()
    given = {"store": {"data": str(tmp_path), "url": "postgresql://nobody@127.0.0.1:1/none"}}
    watch = StoreWatch(log=lambda *_, **__: None)
    with pytest.raises(StoreRefused, match=r"has jobs \(state\.db\), and store\.url names a database"):
        await open_store(Settings.model_validate(given), watch=watch, faults=None, job_shard=shard_of(1))
    await (await SqliteStateStore.open(folder=tmp_path)).close()


async def test_a_folder_whose_jobs_are_in_a_database_is_not_begun_anew(
    tmp_path: Path, each_server: str
) -> None:
    """Without `store.url`, lost by mistake, a service would start without jobs; --new-state does that."""
    watch = StoreWatch(log=lambda *_, **__: None)
    elsewhere = Settings.model_validate({"store": {"data": str(tmp_path), "url": each_server}})
    here = Settings.model_validate({"store": {"data": str(tmp_path)}})

    async def begin(settings: Settings, **options: bool) -> None:
        opened = await open_store(settings, watch=watch, faults=None, job_shard=shard_of(1), **options)
        await opened.close()

    nowhere = Settings.model_validate(
        {"store": {"data": str(tmp_path), "url": "postgresql://x@127.0.0.1:1/x"}}
    )
    with pytest.raises(StoreUnavailable):
        await begin(nowhere)
    assert not (tmp_path / "elsewhere").exists(), "a start that failed has no jobs anywhere"
    await begin(elsewhere)
    with pytest.raises(StoreRefused, match=r"are in a database, and store\.url is not set"):
        await begin(here)
    await begin(elsewhere)
    await begin(here, begins_anew=True)
    await begin(here)


async def test_a_service_whose_jobs_another_one_has_ends_at_once() -> None:
    """What it did from then on would be done twice."""
    said: list[object] = []
    watch = StoreWatch(log=lambda event, **_: said.append(event), end=said.append)
    watch.note_taken()
    assert (said, watch.missing) == (["store_taken", 3], ["store"])


@each_row(
    ("members", "said"),
    [
        ({"store": {"data": ":memory:"}}, "name a folder in store.data"),
        ({"database": {"url": "sqlite://"}}, "leave database.url out"),
    ],
)
def test_one_process_alone_may_use_what_it_cannot_share(members: dict[str, object], said: str) -> None:
    """The message names the number, and what to do instead (SPEC section 16)."""
    check_workers(Settings.model_validate(members))
    with pytest.raises(SettingsError, match=r"server\.workers = 2") as refused:
        check_workers(Settings.model_validate({**members, "server": {"workers": 2}}))
    assert said in str(refused.value)


def test_system_jobs_live_where_their_functions_are() -> None:
    """In the service's own process, however many there are (SPEC section 11)."""
    assert {shard_of(shards)(name) for shards in (1, 2, 5, 32) for name in NAMES} == {0}


def test_a_worker_process_has_all_settings_and_the_steady_line_of_its_service() -> None:
    """Whatever their kind; and though the wall clock was set since the service started."""
    members = {
        "server": {"workers": 3, "key": "a key of some length"},
        "store": {"data": "elsewhere", "durability": "process"},
        "egress": {"allow": ["10.0.0.0/8"], "follow": ["https://a.test"]},
        "services": {"static": {"shop": ["http://a", "http://b"]}},
        "env": {"default": {"HOST": "h"}},
        "history": {"mask": ["secret"]},
        "alerts": [{"on": "failing", "url": "http://a/b?key=secret", "headers": {"X-Key": "secret"}}],
    }
    settings = Settings.model_validate(members)
    loaded = LoadedSettings(settings, {"server.workers": "command line"}, has_file=True)
    clock = ManualClock(wall=1_000, skew=400)
    before = round(time.time() * 1_000)
    surroundings = make_surroundings(loaded, "http://here")
    config = worker_configs(loaded, surroundings, "http://here", "node-1", clock)(2)
    assert Settings.model_validate_json(config.settings) == settings
    assert (config.shard, config.node, config.served, config.has_file) == (2, "node-1", "http://here", True)
    assert (config.sources, config.environment) == (loaded.sources, {"HOST": "h"})
    assert before - 600 <= config.skew <= round(time.time() * 1_000) - 600
