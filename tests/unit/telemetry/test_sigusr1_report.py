"""SIGUSR1 in a process of its own: lines of the log, also where the loop stands still."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time

from scheduler_service.telemetry.sigusr1_report import (
    MOST_TASKS,
    describe_size,
    describe_tasks,
    describe_threads,
)

PROGRAM = """
import asyncio, json, os, signal, sys, threading, time
from scheduler_service.telemetry.sigusr1_report import SignalReports

def log(event, /, **keys):
    print(json.dumps({"event": event, **keys}), flush=True)

async def main():
    reports = SignalReports(log=log, patience=0.2)
    reports.parts = lambda: {"jobs": {"held": 3}}
    reports.others = lambda: [int(sys.argv[2])] if len(sys.argv) > 2 else []
    print("begun", flush=True)
    if sys.argv[1] == "hold":
        time.sleep(60)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    reports.stop()
    print("ended", signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True)

asyncio.run(main())
"""


class Child:
    """The program, told what to do."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._guard = threading.Timer(60, self.process.kill)
        self._guard.start()
        assert self.read() == "begun"

    def read(self) -> str:
        """The next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, lines: int) -> list[dict[str, object]]:
        """What it writes after the signal."""
        self.process.send_signal(signal.SIGUSR1)
        return [json.loads(self.read()) for _ in range(lines)]

    def end(self) -> str:
        """Lets it end by itself; its last line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        last = self.read()
        self.close()
        return last

    def close(self) -> None:
        """Ends it."""
        self._guard.cancel()
        self.process.kill()
        self.process.communicate()


def test_each_part_is_a_line() -> None:
    """And the process goes on: asked twice, it answers twice; after the end the signal is as it was."""
    child = Child("wait")
    for _ in range(2):
        lines = child.ask(4)
        assert {line["event"] for line in lines} == {"process_described"}
        assert [line["part"] for line in lines] == ["process", "jobs", "tasks", "threads"]
        assert lines[1]["held"] == 3
        assert lines[0]["pid"] == child.process.pid
    assert child.end() == "ended False"


def test_a_loop_that_stands_still_is_told_with_where() -> None:
    """The thread says it, for the loop cannot."""
    child = Child("hold")
    (line,) = child.ask(1)
    child.close()
    assert (line["part"], line["heldSeconds"]) == ("loop", 0.2)
    assert "__main__.main" in str(line["functions"])


def test_the_signal_is_passed_on() -> None:
    """To the processes that are named; one that has ended is no fault."""
    other = Child("wait")
    first = Child("wait", str(other.process.pid))
    first.ask(4)
    assert {json.loads(other.read())["part"] for _ in range(4)} >= {"process", "tasks"}
    other.close()
    assert len(first.ask(4)) == 4
    first.close()


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
    # Beyond so many they are counted alone
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
    # In whole numbers; the age counts from the moment that is given
    found = describe_size(time.monotonic() - 60)
    assert found["upSeconds"] in (60, 61)
    assert isinstance(found["residentMiB"], int)
    assert found["residentMiB"] > 10
