"""Which store a service opens."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.app.store_opening import StoreWatch

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_REDIS = """
import sys
sys.modules["redis"] = None
from scheduler_service.__main__ import main
sys.argv = ["punctual", "serve", "--port", "0", "--data", ":memory:", "--store", "redis://127.0.0.1:1"]
main()
"""


def test_a_package_that_is_missing_is_named() -> None:
    """With the extra that brings it, and exit code 3 (SPEC section 16)."""
    command = [sys.executable, "-c", WITHOUT_REDIS]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env={"COLUMNS": "500"}
    )
    assert ended.returncode == 3, ended.stderr
    assert "in a checkout of Punctual: pip install '.[service,redis]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.anyio
async def test_answers_that_nobody_asked_for_are_said_once() -> None:
    """What sends one may send one with each command; the service goes on and is ready."""
    told: list[str] = []
    watch = StoreWatch(log=lambda event, **_: told.append(event))
    for _ in range(3):
        watch.note_unasked()
    assert told == ["store_answered_unasked"]
    assert watch.missing == []
