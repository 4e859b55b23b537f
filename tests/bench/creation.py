"""Durable creation: `python -m tests.bench.creation [one by one] [in arrays] [option of serve …]`.

One by one goes over 64 keep-alive connections, the next request as soon as the answer is there; in arrays
of 1,000 over 2 connections. Requests are made beforehand, so that the figures are the service's own.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence

import uvloop

from tests.bench.stage import Stage, show, stage
from tests.bench.target import content_length

CONNECTIONS, PIPES, ARRAY = 64, 2, 1_000


class Caller(asyncio.Protocol):
    """One connection that sends the next request once the one before is answered."""

    def __init__(self, requests: Iterator[bytes], ended: asyncio.Future[None], mark: bytes) -> None:
        self._requests = requests
        self._ended = ended
        self._mark = mark
        self._buffer = b""
        self.counted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first request goes out."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def data_received(self, data: bytes) -> None:
        """An answer, or a piece of one."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or len(self._buffer) < end + 4 + content_length(self._buffer[:end]):
            return
        self.counted += self._buffer.count(self._mark)
        self._buffer = b""
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
        elif not self._ended.done():
            self._ended.set_result(None)
            self._transport.close()


async def drive(port: int, requests: Sequence[bytes], connections: int, mark: bytes) -> tuple[float, int]:
    """Seconds until all are answered, and how often `mark` stood in the answers."""
    loop = asyncio.get_running_loop()
    rest = iter(requests)
    ends = [loop.create_future() for _ in range(connections)]
    callers = [Caller(rest, end, mark) for end in ends]
    began = time.perf_counter()
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", port)
    await asyncio.gather(*ends)
    return time.perf_counter() - began, sum(caller.counted for caller in callers)


def waiting_job(job_id: str, target: str, *, cron: bool = False) -> dict[str, object]:
    """A job that waits for a moment far away."""
    timer = {"period": "0 30 2 1 1 ?"} if cron else {"dueTime": "2030-01-01 00:00:00", "period": "0s"}
    return {
        "jobId": job_id,
        "jobName": "bench",
        "creator": "bench",
        "creatorName": "bench",
        "timer": timer,
        "request": [{"url": f"{target}/run", "body": {"n": 1, "who": job_id}}],
    }


def post(path: str, body: object, key: str = "") -> bytes:
    """A whole request; `key` is what its caller shows."""
    text = json.dumps(body).encode()
    shown = f"Authorization: {key}\r\n" if key else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{shown}"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def main(singly: int = 12_000, arrayed: int = 60_000, *options: str) -> None:
    """Prints creations a second and CPU of the service for each, one by one and in arrays."""
    with stage(*options) as on:
        on.settle()
        keys = on.keys or ("", "")
        one_by_one = [
            post(f"/jobs/one-{n}", waiting_job(f"one-{n}", on.target, cron=n % 2 == 0), keys[n // 2 % 2])
            for n in range(singly)
        ]
        _measure(on, "one by one", one_by_one, CONNECTIONS, b"HTTP/1.1 201", singly)
        arrays = [
            post("/jobs", [_job(n, on.target) for n in range(at, at + ARRAY)], keys[at // ARRAY % 2])
            for at in range(0, arrayed, ARRAY)
        ]
        _measure(on, "in arrays", arrays, PIPES, b'"status":"created"', arrayed)


def _job(number: int, target: str) -> dict[str, object]:
    return waiting_job(f"many-{number}", target, cron=number % 2 == 0)


def _measure(
    on: Stage, title: str, requests: Sequence[bytes], connections: int, mark: bytes, expected: int
) -> None:
    if not requests:
        return
    before = on.cpu()
    seconds, created = uvloop.run(drive(on.port, requests, connections, mark))
    assert created == expected, f"{created} of {expected} were created"
    show(
        f"creation {title}",
        {
            "count": created,
            "created/s": round(created / seconds),
            "cpu_us": round((on.cpu() - before) / created * 1e6),
            "memory_mib": round(on.memory()),
        },
    )


if __name__ == "__main__":
    counts, options = sys.argv[1:3], sys.argv[3:]
    main(*map(int, counts), *options)
