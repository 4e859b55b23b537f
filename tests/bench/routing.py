"""Work for services: `python -m tests.bench.routing [instances] [executions] [workers] [parts]`."""

import asyncio
import json
import sys
import time
from typing import Any

from tests.bench.stage import Stage, one_shot, show, stage

BATCH = 10
LAST_BEAT = 1.5
"""Seconds before the moment: nobody may be offline before the last call is made."""
ROUTES = ("random", "round_robin", "least_busy", "hash")
CLAIM = b'{"instanceId":"w%d","max":%d,"waitSeconds":1}'
DONE = b'{"status":"succeed"}'


def main(instances: int = 100, executions: int = 3_000, workers: int = 20, parts: int = 3_000) -> None:
    """Prints dispatches a second over many instances, for each policy, and claims a second from a queue."""
    with stage() as on:
        on.settle()
        for number in range(instances):
            path = f"/services/shop/instances/i{number}"
            on.client.put(path, json={"address": on.target}).raise_for_status()
        for route in ROUTES:
            step = {"url": "service://shop/run", "route": route}
            show(
                f"{executions} executions over {instances} instances, {route}",
                _dispatch(on, step, executions),
            )
        step = {"url": "service://shop/run", "route": "broadcast"}
        show(f"20 broadcasts to {instances} instances", _dispatch(on, step, 20, each=instances))
        show(f"{parts} parts of a queue, {workers} workers", _claim(on, workers, parts))


def _dispatch(on: Stage, step: dict[str, Any], count: int, each: int = 1) -> dict[str, Any]:
    """So many jobs that are due at one moment."""
    name = step["route"] + str(each)
    known = len(on.arrivals())
    moment = int(time.time()) + 4 + count // 500
    _create(on, name, step, count, moment)
    time.sleep(max(moment - LAST_BEAT - time.time(), 0))
    _heartbeats(on)
    before = on.cpu()
    arrivals = on.await_arrivals(known + count * each, 60 + moment - time.time())[known:]
    last = max(when for _, _, when in arrivals) / 1000
    sent = len(arrivals)
    cpu = round((on.cpu() - before) / sent * 1e6)
    return {"sent": sent, "dispatches/s": round(sent / max(last - moment, 0.001)), "cpu_us": cpu}


def _claim(on: Stage, workers: int, count: int) -> dict[str, Any]:
    """As many parts, published beforehand, claimed ten at a time and completed one by one."""
    _create(on, "queued", {"url": "queue://work"}, count, int(time.time()) + 5 + count // 500)
    time.sleep(4 + count // 500)
    before, began = on.cpu(), time.perf_counter()
    asyncio.run(_work(on.port, workers, count))
    seconds = time.perf_counter() - began
    cpu = round((on.cpu() - before) / count * 1e6)
    return {"claims and completions/s": round(count / seconds), "cpu_us": cpu}


def _create(on: Stage, name: str, step: dict[str, Any], count: int, moment: int) -> None:
    shots = [one_shot(f"{name}-{number}", moment, on.target, 0) for number in range(count)]
    on.create([shot | {"request": [step]} for shot in shots])


def _heartbeats(on: Stage) -> None:
    """Everybody is online when the moment comes."""
    for instance in on.client.get("/services/shop").json()["data"]["instances"]:
        path = f"/services/shop/instances/{instance['instanceId']}/heartbeat"
        on.client.post(path, json={}).raise_for_status()


async def _work(port: int, workers: int, count: int) -> None:
    done = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_worker(port, number, done)) for number in range(workers)]
    for _ in range(count):
        await done.acquire()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _worker(port: int, number: int, done: asyncio.Semaphore) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        answer = await _ask(reader, writer, "/queues/work/claim", CLAIM % (number, BATCH))
        for item in answer["data"]["items"]:
            await _ask(reader, writer, f"/leases/{item['lease']}/complete", DONE)
            done.release()


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: bytes
) -> dict[str, Any]:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    found: dict[str, Any] = json.loads(await reader.readexactly(length))
    return found


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
