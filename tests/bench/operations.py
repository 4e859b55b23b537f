"""Lateness beside an operation: `python -m tests.bench.operations [jobs] [a second] [seconds]`.

Firings at a steady rate, first alone and then while operations on so many jobs go on all the time.
"""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import httpx

from scheduler_service.app.local_service import open_service
from scheduler_service.settings import LoadedSettings, Settings
from tests.bench.stage import Stage, figures, one_shot, show, stage

ACTIONS = ("pause", "resume", "label")
IDLE_MS = 0.05


def main(jobs: int = 10_000, rate: int = 100, seconds: int = 20) -> None:
    """Prints the steps of the loop, then lateness of the firings and how many operations ended meanwhile."""
    asyncio.run(_measure_steps(jobs))
    with stage() as on:
        on.create([_idle(number, on.target) for number in range(jobs)])
        _measure(on, "alone", rate, seconds, ())
        for action in ACTIONS:
            _measure(on, f"beside {action} of {jobs}", rate, seconds, (action,))


async def _measure_steps(jobs: int) -> None:
    """CPU of each round of the loop during an operation: so long it keeps a firing waiting by itself.

    Unlike lateness this does not depend on what else the machine does.
    """
    with tempfile.TemporaryDirectory(prefix="punctual-operations-") as folder:
        settings = Settings.model_validate({"store": {"data": folder}})
        service = await open_service(
            LoadedSettings(settings, {}), served="http://127.0.0.1:1", log=lambda event, /, **keys: None
        )
        await service.start()
        transport = httpx.ASGITransport(service.api, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
            for start in range(0, jobs, 1_000):
                body = [
                    _idle(number, "http://127.0.0.1:9") for number in range(start, min(start + 1_000, jobs))
                ]
                (await client.post("/jobs", json=body)).raise_for_status()
            for action in ACTIONS:
                show(f"rounds of the loop, {action} of {jobs}", await _rounds(client, _body(action, "0")))
        await service.stop(1_000)


async def _rounds(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    """CPU in ms of the rounds, from the request to the end of the operation."""
    asking = asyncio.create_task(_ended(client, body))
    spent, last, began = [], time.thread_time(), time.process_time()
    while not asking.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        spent.append((now - last) * 1_000)
        last = now
    assert (await asking)["failed"] == 0
    # A round of nothing but this measurement keeps nobody waiting.
    busy = sorted(one for one in spent if one > IDLE_MS)
    return {
        "rounds": len(busy),
        "p50_ms": round(busy[len(busy) // 2], 2),
        "p99_ms": round(busy[len(busy) * 99 // 100], 2),
        "max_ms": round(busy[-1], 1),
        "cpu_us a job": round((time.process_time() - began) * 1e6 / (await asking)["total"]),
    }


async def _ended(client: httpx.AsyncClient, body: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = (await client.post("/bulk/jobs", json=body)).json()["data"]["operation"]
    while operation["state"] == "running":
        await asyncio.sleep(0.2)
        operation = (await client.get(f"/operations/{operation['operationId']}")).json()["data"]
    return operation


def _measure(on: Stage, name: str, rate: int, seconds: int, actions: Sequence[str]) -> None:
    count, began = rate * seconds, int(time.time()) + 5
    planned: dict[str, float] = {}
    shots: list[dict[str, Any]] = []
    for number in range(count):
        moment = began + number / rate
        shot = one_shot(f"{name.replace(' ', '-')}-{number}", moment, on.target, 0)
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(moment)))
        shot["timer"]["dueTime"] = f"{whole}.{round(moment % 1 * 1000):03d}Z"
        shots.append(shot)
        planned[shot["jobId"]] = moment * 1000
    on.create(shots)
    ended: list[str] = []
    worker = threading.Thread(target=_operate, args=(on, actions, began, seconds, ended))
    worker.start()
    before = len(on.arrivals())
    arrivals = on.await_arrivals(before + count, seconds + 60 + began - time.time())
    worker.join()
    own = [one for one in arrivals if one[0] in planned or one[1] in planned]
    show(name, {**figures(own, planned), "operations ended": len(ended)})


def _operate(on: Stage, actions: Sequence[str], began: int, seconds: int, ended: list[str]) -> None:
    """Operations one after the other, from the first firing to the last."""
    time.sleep(max(began - time.time(), 0))
    while actions and time.time() < began + seconds:
        action = actions[len(ended) % len(actions)]
        body = _body(action, str(len(ended)))
        operation = on.client.post("/bulk/jobs", json=body).json()["data"]["operation"]
        while operation["state"] == "running":
            time.sleep(0.2)
            operation = on.client.get(f"/operations/{operation['operationId']}").json()["data"]
        assert operation["failed"] == 0, operation["problems"][:1]
        ended.append(action)


def _body(action: str, label: str) -> dict[str, Any]:
    body: dict[str, Any] = {"action": action, "select": {"filter": {"creator": "idle"}}}
    return body | ({"labels": {"round": label}} if action == "label" else {})


def _idle(number: int, target: str) -> dict[str, Any]:
    return {
        "jobId": f"idle-{number}",
        "jobName": "idle",
        "creator": "idle",
        "creatorName": "idle",
        "timer": {"period": "0 0 3 1 1 ?"},
        "request": [{"url": f"{target}/run"}],
    }


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
