"""What a start loads: each process of a service pays for it, and hundreds of processes in a run of tests."""

import subprocess
import sys

from tests.rows import each_row

FOR_PEOPLE = {"structlog", "rich", "pygments"}
FOR_TRACES = {"httpx"}
AFTER_CALLS = {"jsonschema", "sqlalchemy.dialects.postgresql"}
"""A twelfth of the imports: a call that is sent again over SQLite needs neither."""


OF_THE_API = {
    "fastapi",
    "scheduler_service.http_server.server",
    "scheduler_service.api.application",
    "scheduler_service.console",
}
"""A third of the start, for which the calls in flight would wait."""


@each_row(
    ("module", "without"),
    [
        (
            "app.lifetime",
            FOR_PEOPLE | FOR_TRACES | AFTER_CALLS | OF_THE_API | {"alembic", "psycopg", "redis", "dapr"},
        ),
        ("app.worker_main", FOR_PEOPLE | FOR_TRACES | {"alembic", "psycopg", "fastapi", "uvicorn"}),
    ],
)
def test_a_process_loads_only_what_it_uses(module: str, without: set[str]) -> None:
    """A worker process has no API; a log in JSON, and no traces, need no library."""
    code = f"import scheduler_service.{module}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not without & set(done.stdout.split())
