"""What a process says of itself: names and counts, no values."""

import asyncio
import time

from scheduler_service.telemetry.process_report import (
    MOST_TASKS,
    describe_size,
    describe_tasks,
    describe_threads,
)


async def wait_for(secret: str, gate: asyncio.Event) -> None:
    """Waits, holding a value that nobody is to see."""
    await gate.wait()


async def test_tasks_are_grouped_by_what_they_run_and_where_they_wait() -> None:
    """The most frequent first, and no value of theirs."""
    gate = asyncio.Event()
    tasks = [asyncio.create_task(wait_for("hidden", gate), name=f"hidden-{n}") for n in range(3)]
    await asyncio.sleep(0)
    found = describe_tasks(tasks)
    gate.set()
    await asyncio.gather(*tasks)
    assert found["count"] == 3
    (group,) = found["groups"]  # type: ignore[misc]
    assert (group["count"], group["runs"]) == (3, f"{__name__}.wait_for")
    assert group["waits"] == ["asyncio.locks.Event.wait"]
    assert "hidden" not in str(found)


async def test_a_flood_of_tasks_takes_bounded_time() -> None:
    """Beyond so many they are counted alone."""
    gate = asyncio.Event()
    tasks = [asyncio.create_task(wait_for("", gate)) for _ in range(MOST_TASKS + 10)]
    await asyncio.sleep(0)
    found = describe_tasks(tasks)
    gate.set()
    await asyncio.gather(*tasks)
    assert (found["count"], found["notLookedAt"]) == (MOST_TASKS + 10, 10)
    assert found["groups"][0]["count"] == MOST_TASKS  # type: ignore[index]


async def test_threads_are_named_with_where_they_stand() -> None:
    """This one stands in this test."""
    found = describe_threads()
    own = next(one for one in found["threads"] if one["name"] == "MainThread")  # type: ignore[attr-defined]
    assert any("describe_threads" in name for name in own["at"])


async def test_the_size_is_that_of_this_process() -> None:
    """In whole numbers; the age counts from the moment that is given."""
    found = describe_size(time.monotonic() - 60)
    assert found["upSeconds"] in (60, 61)
    assert isinstance(found["residentMiB"], int)
    assert found["residentMiB"] > 10
