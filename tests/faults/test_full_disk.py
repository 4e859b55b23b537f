"""A full disk stops nothing for good: 503 with nothing done, and on again when there is room
(SPEC section 10)."""

import resource
from pathlib import Path
from typing import Any

from tests.faults.inside import Inside, open_inside
from tests.faults.jobs import begin, ended, plain
from tests.faults.processes import Run, start_run
from tests.faults.target import open_target

OTHER = "/jobs/other"
LARGE = {"jobDescription": "x" * 200_000}
# Smaller than a database's write-ahead log with one page in it: wherever the log goes on, there is no room.
NO_FRAME = 4_150


def limit_files(run: Run, size: int) -> None:
    """No file of the process may grow beyond `size` bytes: its disk is full."""
    _, hard = resource.prlimit(run.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (size, hard))


async def test_a_process_on_a_full_disk_stays_up_and_goes_on(tmp_path: Path) -> None:
    """Changes are refused with 503 and leave nothing; firings of that time are late, not lost or doubled."""
    folder = tmp_path / "data"
    async with open_target() as target:
        run = start_run(folder)
        definition = plain(target, timer={"dueTime": "1s", "period": "R3/PT0.3S"}, qos=1)
        await begin(run, definition | {"overlapPolicy": "queue"})
        assert Path(run.order.log).stat().st_size < NO_FRAME / 2, "the log has room to say what is wrong"
        limit_files(run, NO_FRAME)
        answer = await run.ask("POST", OTHER, json=plain(target, jobId="other", **LARGE))
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert "Traceback" not in answer.text
        assert (await run.ask("GET", "/health/live")).status_code == 200

        async def has_tried() -> bool:
            return '"alarm_not_taken"' in Path(run.order.log).read_text()

        await run.until(has_tried, "a firing could not be written")
        assert not target.seen
        resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        executions = await ended(run, 3)
        assert (await run.ask("GET", OTHER)).status_code == 404
        created = await run.ask("POST", OTHER, json=plain(target, jobId="other", **LARGE))
        assert created.status_code == 201
        firings = (await run.read("/jobs/job/firings"))["items"]
        assert await run.terminate() == 0
    assert {one["state"] for one in executions} == {"succeeded"}
    assert len(executions) == len({one["plannedAt"] for one in firings}) == 3
    assert len(target.seen) == len({one.key for one in target.seen}) == 3


async def test_a_store_without_pages_refuses_and_recovers(tmp_path: Path) -> None:
    """Where SQLite says that the disk is full nothing was written, whatever was asked."""
    async with open_target() as target, open_inside(tmp_path / "data") as inside:
        created = await inside.ask("POST", "/jobs/job", json=plain(target))
        assert created.status_code == 201
        most = _pages(inside, "max_page_count")
        _pages(inside, f"max_page_count = {_pages(inside, 'page_count')}")
        for method, path, body in _changes(target.url):
            answer = await inside.ask(method, path, json=body)
            assert answer.status_code == 503, (path, answer.text)
            assert answer.json()["errors"][0]["code"] != "unknown"
        assert (await inside.ask("GET", OTHER)).status_code == 404
        assert (await inside.read("/jobs/job"))["revision"] == 1
        assert not target.seen
        _pages(inside, f"max_page_count = {most}")
        for method, path, body in _changes(target.url):
            answer = await inside.ask(method, path, json=body)
            assert answer.status_code in (200, 201), (path, answer.text)
        assert [one["state"] for one in await ended(inside, 1)] == ["succeeded"]
        assert len(target.seen) == 1


def _changes(url: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Requests each of which needs more room than a page has left."""
    definition = {
        "jobName": "large", "creator": "1", "creatorName": "one", "timer": {"period": "external"},
        "request": [{"url": f"{url}/one"}], **LARGE,
    }  # fmt: skip
    return [
        ("POST", OTHER, definition),
        ("POST", "/jobs/job/update", definition),
        ("POST", "/jobs/job/trigger", {"blob": "x" * 200_000}),
    ]


def _pages(inside: Inside, pragma: str) -> int:
    connection = inside.service.store.files.writing
    found: int = connection.execute(f"PRAGMA {pragma}").fetchall()[0][0]
    return found
