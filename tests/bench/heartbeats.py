"""What services cost at rest: `python -m tests.bench.heartbeats [instances] [seconds] [declared]`."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

from tests.bench.stage import Stage, show, stage

EVERY_SECONDS = 3
CONNECTIONS = 250
SERVICES = 10
TIMERS = 20


def main(instances: int = 1_000, seconds: int = 30, declared: int = 10_000) -> None:
    """Prints shares of one core: heartbeats, full registrations, and scans over jobs that stand still."""
    with stage() as on:
        on.settle()
        show("at rest", {"core_percent": _share(on, lambda: time.sleep(5))})
        beats = Beats(on, instances)
        beats.register([])
        count = instances * seconds // EVERY_SECONDS
        share = _share(on, lambda: beats.send(count, seconds))
        show(
            f"heartbeats of {instances} instances, every {EVERY_SECONDS} s, for {seconds} s",
            {"sent": beats.sent, "refused": beats.refused, "core_percent": share},
        )
        timers = [_definition(f"beat-{number}") for number in range(TIMERS)]
        beats.register(timers)
        show(
            f"{instances} full registrations with {TIMERS} timers each, which take place every 30 s",
            {"core_percent": round(_spent(on, lambda: beats.register(timers)) / 30 * 100, 2)},
        )
        show(f"check-timers over {declared} declared jobs", _scan(on, declared))


class Beats:
    """Instances over connections that stay open, as a client that lives on keeps its own."""

    def __init__(self, on: Stage, instances: int) -> None:
        self._on = on
        self._paths = [f"/services/s{number % SERVICES}/instances/i{number}" for number in range(instances)]
        self.sent = self.refused = 0

    def register(self, timers: list[dict[str, Any]]) -> None:
        """Each of them, once."""
        body = {"address": "http://127.0.0.1:9", "timers": timers}
        for number, path in enumerate(self._paths):
            own = [one | {"jobId": f"{one['jobId']}-{number % SERVICES}"} for one in timers]
            self._on.client.put(path, json=body | {"timers": own}).raise_for_status()

    def send(self, count: int, seconds: float) -> None:
        """`count` heartbeats, evenly over `seconds`."""
        asyncio.run(self._send(count, seconds))

    async def _send(self, count: int, seconds: float) -> None:
        turns = cycle(range(len(self._paths)))
        shares = [count // CONNECTIONS + (number < count % CONNECTIONS) for number in range(CONNECTIONS)]
        start = time.perf_counter() + 1
        await asyncio.gather(
            *(
                self._beat(turns, share, start + number * seconds / count, seconds / max(share, 1))
                for number, share in enumerate(shares)
            )
        )

    async def _beat(self, turns: Iterator[int], count: int, start: float, pause: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._on.port)
        for number in range(count):
            await asyncio.sleep(max(start + number * pause - time.perf_counter(), 0))
            writer.write(_request(f"{self._paths[next(turns)]}/heartbeat"))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            self.sent += 1
            self.refused += not head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


def _request(path: str) -> bytes:
    body = b'{"load": 1, "draining": false}'
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _definition(job_id: str) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "jobName": "a declared job",
        "timer": {"period": "0 0 0 1 1 ?"},
        "request": [{"url": "service:/run", "body": {"a": ["${schedulingFireTime}"] * 3}}],
    }


def _scan(on: Stage, declared: int) -> dict[str, Any]:
    """The first scan makes the jobs, the second finds that nothing has moved."""
    for start in range(0, declared, 1_000):
        timers = [_definition(f"d-{number}") for number in range(start, start + 1_000)]
        on.client.put(f"/services/d{start}", json={"timers": timers}).raise_for_status()
    made = _spent(on, lambda: _check(on))
    began = time.perf_counter()
    still = _spent(on, lambda: _check(on))
    return {
        "made_cpu_s": round(made, 2),
        "still_cpu_s": round(still, 3),
        "still_s": round(time.perf_counter() - began, 2),
        "still_core_percent": round(still / 120 * 100, 3),
    }


def _check(on: Stage) -> None:
    """Triggers check-timers and waits for its end."""
    started = on.client.post("/jobs/check-timers/trigger").json()["data"]["executionId"]
    while True:
        answer = on.client.get(f"/executions/{started}")
        if answer.status_code == 200 and answer.json()["data"]["endedAt"] is not None:
            break
        time.sleep(0.1)
    assert answer.json()["data"]["state"] == "succeeded", json.dumps(answer.json()["data"])


def _spent(on: Stage, work: Any) -> float:
    before = on.cpu()
    work()
    return on.cpu() - before


def _share(on: Stage, work: Any) -> float:
    began = time.perf_counter()
    spent = _spent(on, work)
    return round(spent / (time.perf_counter() - began) * 100, 1)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
