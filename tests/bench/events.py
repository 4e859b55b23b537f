"""What readers of the event stream cost: triggers with none, with one that reads, and with slow ones.

`python -m tests.bench.events [jobs] [readers]` runs a service in this process, triggers so many jobs, and
prints for each kind of readers the time, the CPU per trigger and the memory. With `herd [jobs] [readers]
[rounds]` it shows how late the firings of a herd are without readers, with one and with slow ones, in turns.
With `making [batches]` it shows what the two turns of an execution take (`tests.bench.turns`) while nobody
follows, and while events are made, batch by batch in turns.
"""

import asyncio
import contextlib
import gc
import resource
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from scheduler_service.app.telemetry import Telemetry
from scheduler_service.settings import Settings
from scheduler_service.telemetry.event_feed import EventFeed, LocalEvents
from tests.bench import turns
from tests.bench.stage import figures, one_shot, show, stage
from tests.wire.event_stream import Listening, listening, open_silent
from tests.wire.service import World, definition, running

GROUP = 500
FILLING = 500
"""Jobs of the herd before: its events are more than the connection of a reader takes."""

GAP_SECONDS = 6


async def main(jobs: int, readers: int) -> None:
    """Prints a line for each kind."""
    for name, fast, slow in (("nobody", 0, 0), ("one that reads", 1, 0), ("slow ones", 0, readers)):
        async with running() as world, listening(world) as api:
            print(f"{name:<16}", await measure(world, api, jobs, fast, slow), flush=True)


async def measure(world: World, api: Listening, jobs: int, fast: int, slow: int) -> str:
    """CPU per execution, and the memory of the events."""
    sockets = [open_silent(api.url) for _ in range(slow)]
    tasks = [asyncio.create_task(read(api)) for _ in range(fast)]
    await asyncio.sleep(0.2)
    batch = [definition(jobId=f"job-{number}") for number in range(jobs)]
    for at in range(0, jobs, GROUP):
        answer = await world.client.post("/jobs", json=batch[at : at + GROUP], timeout=60)
        assert answer.status_code < 300, answer.text
    begun, cpu = time.perf_counter(), time.process_time()
    for at in range(0, jobs, GROUP):
        names = [f"job-{number}" for number in range(at, min(at + GROUP, jobs))]
        await asyncio.gather(*(world.client.post(f"/jobs/{name}/trigger", timeout=60) for name in names))
    await world.settle()
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    ring = world.service.events.ring
    for one in sockets:
        one.close()
    for task in tasks:
        task.cancel()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return (
        f"{seconds:6.2f} s  {used / jobs * 1e6:7.1f} µs CPU per trigger  "
        f"{ring.end - ring.first:6} events kept  {ring.bytes >> 10:6} KiB  {memory:5} MiB in all"
    )


async def read(api: Listening) -> None:
    """A reader that reads all."""
    async with api.stream() as stream:
        while True:
            await stream.next()


def herd(jobs: int, readers: int, rounds: int) -> None:
    """Prints a line for each round: without readers, with one that reads, and with slow ones.

    The readers come for a smaller herd: what it costs to fill their connections is a figure of its own.
    """
    for _ in range(rounds):
        for name, open_readers in (
            ("nobody", lambda url: []),
            ("one that reads", lambda url: [open_reading(url)]),
            (f"{readers} slow readers", lambda url: [open_silent(url) for _ in range(readers)]),
        ):
            show(f"herd of {jobs}, {name}", follow_herd(jobs, open_readers))


def follow_herd(jobs: int, open_readers: Callable[[str], list[socket.socket]]) -> dict[str, Any]:
    """How late the firings are, and the CPU of an execution, beside readers of the service at an address."""
    with stage() as on:
        first = int(time.time()) + 4 + jobs // 400
        moment = first + GAP_SECONDS
        on.create([one_shot(f"first-{number}", first, on.target, 0) for number in range(FILLING)])
        on.create([one_shot(f"herd-{number}", moment, on.target, 0) for number in range(jobs)])
        time.sleep(max(0, first - 2 - time.time()))
        before = on.cpu()
        # They come late: who reads nothing for half a minute is cut off.
        sockets = open_readers(str(on.client.base_url).rstrip("/"))
        time.sleep(max(0, moment - 1 - time.time()))
        filled = on.cpu()
        arrivals = on.await_arrivals(jobs + FILLING, 60 + moment - time.time())
        found = figures(arrivals, {f"herd-{number}": moment * 1_000.0 for number in range(jobs)})
        costs = {
            "first_cpu_ms": round((filled - before) * 1e3),
            "cpu_us": round((on.cpu() - filled) / jobs * 1e6),
        }
        for one in sockets:
            one.shutdown(socket.SHUT_RDWR)
            one.close()
    return found | costs


def open_reading(url: str) -> socket.socket:
    """A reader that asks for all events and takes them as they come, until it is shut down."""
    host, port = url.removeprefix("http://").split(":")
    one = socket.create_connection((host, int(port)))
    one.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

    def read_on() -> None:
        with contextlib.suppress(OSError):
            while one.recv(1 << 16):
                pass

    threading.Thread(target=read_on, daemon=True).start()
    return one


async def making(batches: int) -> None:
    """Prints the median of the batches of each kind, in µs of CPU per execution."""
    telemetry = Telemetry(settings=Settings(), log=lambda event, /, **keys: print(event, keys))
    loop = asyncio.get_running_loop()
    feed = EventFeed(
        source=LocalEvents(occurrences=telemetry.occurrences, line="1"),
        most_readers=1,
        later=lambda seconds, work: loop.call_later(0, work),
    )
    firing = turns.Firing(qos=0, steps=1, decorators=telemetry.decorators)
    await firing.prepare(batches)
    gc.collect()
    gc.freeze()
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(batches):
        reader = await feed.follow() if number % 2 else None
        begun = time.process_time()
        await firing.fire()
        found[reader is not None].append((time.process_time() - begun) * 1e6 / turns.SIZE)
        if reader is not None:
            reader.leave()
            await asyncio.sleep(0.01)
    print(
        *(
            f"{name} {statistics.median(found[key]):.1f} µs"
            for key, name in ((False, "nobody"), (True, "made"))
        )
    )


def numbers(given: list[str]) -> tuple[int, int]:
    """Jobs and readers."""
    values: list[Any] = [int(one) for one in given] + [2_000, 100][len(given) :]
    return values[0], values[1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["herd"]:
        herd(*[int(one) for one in sys.argv[2:]] + [2_000, 100, 3][len(sys.argv) - 2 :])
    elif sys.argv[1:2] == ["making"]:
        asyncio.run(making(int(([*sys.argv[2:], "200"])[0])))
    else:
        asyncio.run(main(*numbers(sys.argv[1:])))
