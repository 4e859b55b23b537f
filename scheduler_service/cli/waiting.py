"""Waits for the end of an execution, with its progress on a terminal."""

import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from scheduler_service.cli.connection import ApiConnection
from scheduler_service.cli.errors import AbsentError, CommandError, Exit
from scheduler_service.cli.output import Format, show
from scheduler_service.engine.states import TERMINAL

POLL_SECONDS = 0.2
RECORDED_SECONDS = 2.0
"""How long a started execution may be missing in the history (SPEC section 10: up to a second)."""


def show_end(connection: ApiConnection, execution_id: str, timeout: float, output: Format) -> None:
    """Waits for the execution and shows it. Raises CommandError: timed out, or it did not succeed."""
    ended = wait_for(connection, execution_id, timeout)
    show(ended, output)
    check_success(ended)


def wait_for(connection: ApiConnection, execution_id: str, timeout: float) -> dict[str, Any]:
    """The ended execution. Raises CommandError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    shown = ""
    for execution in _poll(connection, execution_id):
        if execution and execution["state"] in TERMINAL:
            return execution
        shown = _show_progress(execution, shown)
        if time.monotonic() >= deadline:
            state = execution["state"] if execution else "not recorded yet"
            text = f"{execution_id} is {state} after {timeout:g} s; ask again with 'punctual executions get'"
            raise CommandError(text, Exit.TIMED_OUT)
    raise AssertionError("polling does not end by itself")


def check_success(execution: dict[str, Any]) -> None:
    """Raises CommandError unless the execution succeeded."""
    if execution["state"] != "succeeded":
        cause = execution.get("error") or execution.get("reason") or ""
        text = f"{execution['executionId']} ended {execution['state']} {cause}".rstrip()
        raise CommandError(text, Exit.FAILED)


def path_of(execution_id: str) -> str:
    """The path of an execution."""
    return f"/executions/{quote(execution_id, safe='')}"


def _poll(connection: ApiConnection, execution_id: str) -> Iterator[dict[str, Any] | None]:
    """The execution, read repeatedly; None while it is not in the history yet.

    Raises CommandError for one that does not appear.
    """
    recorded = time.monotonic() + RECORDED_SECONDS
    while True:
        try:
            yield connection.get(path_of(execution_id))
        except AbsentError:
            if time.monotonic() >= recorded:
                raise
            yield None
        time.sleep(POLL_SECONDS)


def _show_progress(execution: dict[str, Any] | None, shown: str) -> str:
    if execution is None or not sys.stderr.isatty():
        return shown
    text = f"{execution['state']} {execution.get('progress') or ''}".strip()
    if text != shown:
        print(f"… {text}", file=sys.stderr)
    return text
