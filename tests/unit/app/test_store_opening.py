"""Where a service keeps the contexts of qos 1."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.app.store_opening import keep_contexts
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.settings import Settings, SettingsError

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
    environ = {"COLUMNS": "500", "PUNCTUAL_CONTEXTS__URL": "redis://127.0.0.1:1"}
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
