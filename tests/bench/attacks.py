"""Attacks whose effect on a bystander is measured: `python -m tests.bench.attacks [-s SECONDS] [NAME …]`.

A line says how the bystander fared before the attack, a second one how during it: the lateness of its
firings, the longest answer of `/health/live` and how many it did not give, and the most memory of a process
so far. Without names all attacks run, one after the other, each on a service of its own.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from tests.attack.bystander import Bystander, lateness, open_bystander
from tests.attack.client import many_clients, open_client, post
from tests.attack.service import Limits, Service, job, open_service
from tests.attack.target import held, saying
from tests.bench.stage import show
from tests.unit.transport.servers import Stage

SECONDS = 10.0
REST = 2.0
TARGETS, EACH, HELD_SECONDS, SILENT = 3, 600, 6, 1_100
FEW: Limits = {"NOFILE": (1_024, 1_024)}
KEPT_JOBS, KEPT_STEPS, KEPT_LENGTH, KEPT_AHEAD = 500, 4, 500_000, 6.0
TOLD_JOBS, TOLD_LENGTH = 100, 1_000_000
MIB = 1 << 20
TEXT = "x" * (3 << 10)
WAITING = {
    "jobName": "large",
    "creator": "bench",
    "creatorName": "bench",
    "timer": {"dueTime": "2035-01-01 00:00:00", "period": "0s"},
}


class Scene(NamedTuple):
    """What an attack acts on: the service, and where it may open hostile targets."""

    service: Service
    stage: Stage

    async def create(self, jobs: list[dict[str, Any]]) -> None:
        """Jobs of an attack, in one array."""
        answer = await self.service.run.ask("POST", "/jobs", json=jobs)
        assert answer.is_success, answer.text


class Attack(NamedTuple):
    """`begin` is entered when it begins and left when it ends; the service has `limits`."""

    begin: Callable[[Scene], AbstractAsyncContextManager[None]]
    says: str
    limits: Limits


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, *, limits: Limits | None = None
) -> Callable[[Callable[[Scene], AsyncIterator[None]]], Callable[[Scene], AsyncIterator[None]]]:
    """Registers an async generator that yields once, while it goes on; its docstring says what it is."""

    def register(begin: Callable[[Scene], AsyncIterator[None]]) -> Callable[[Scene], AsyncIterator[None]]:
        assert name not in ATTACKS, name
        says = (begin.__doc__ or "").partition("\n")[0]
        ATTACKS[name] = Attack(asynccontextmanager(begin), says, limits or {})
        return begin

    return register


@attack("slow_targets", limits=FEW)
async def slow_targets(scene: Scene) -> AsyncIterator[None]:
    """Three targets that take 6 s, with 600 calls each at one moment, over 1,024 descriptors."""
    for number in range(TARGETS):
        target = await scene.stage.server(held(partial(asyncio.sleep, HELD_SECONDS)))
        await scene.create([job(f"slow-{number}-{one}", target.url) for one in range(EACH)])
    yield


@attack("silent_callers", limits=FEW)
async def silent_callers(scene: Scene) -> AsyncIterator[None]:
    """1,100 connections that say nothing, over 1,024 descriptors."""
    async with many_clients(scene.service.url, SILENT):
        yield


@attack("told")
async def notified_checks(scene: Scene) -> AsyncIterator[None]:
    """100 jobs of qos 1 whose checks are answered with 1 MB twice a second, each of which is notified."""
    target = await scene.stage.server(saying({"status": "", "data": "x" * TOLD_LENGTH}))
    others = await scene.stage.server(saying({}))
    told = {"async": True, "notification": [{"url": f"{others.url}/told"}]}
    checks = {"checkUrl": f"{target.url}/check", "checkRateSeconds": 0.5}
    jobs = [job(f"told-{number}", f"{others.url}/run", qos=1, **checks) for number in range(TOLD_JOBS)]
    await scene.create([one | told for one in jobs])
    yield


@attack("kept")
async def kept_responses(scene: Scene) -> AsyncIterator[None]:
    """500 jobs at one moment, each with four answers of 500 KB that its last step needs."""
    target = await scene.stage.server(saying({"text": "x" * KEPT_LENGTH}))
    texts = [f"${{responses[{number}].text}}" for number in range(KEPT_STEPS)]
    last = {"url": f"{target.url}/last", "body": texts}
    steps = [*({"url": f"{target.url}/{number}"} for number in range(KEPT_STEPS)), last]
    due = datetime.now(UTC) + timedelta(seconds=KEPT_AHEAD)
    timer = {"dueTime": due.isoformat(timespec="seconds")}
    await scene.create([job(f"kept-{number}", "", request=steps, timer=timer) for number in range(KEPT_JOBS)])
    yield


@attack("sizes")
async def bodies_as_large_as_allowed(scene: Scene) -> AsyncIterator[None]:
    """A caller with arrays of 4 MiB, one with definitions of a MiB, each as soon as the last is answered."""
    # Made beforehand: the bystander's target is in this process, and would be late itself.
    arrays = [post("/jobs", _array(number)) for number in range(4)]
    definitions = [post(f"/jobs/one-{number}", _definition(number)) for number in range(20)]
    callers = [asyncio.create_task(_ask_on(scene, requests)) for requests in (arrays, definitions)]
    yield
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)


async def _ask_on(scene: Scene, requests: list[bytes]) -> None:
    """One request after the other, each over a connection of its own, whatever becomes of it."""
    for request in itertools.cycle(requests):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            async with open_client(scene.service.url) as client:
                await client.say(request)
                await client.answer()


def _array(number: int) -> bytes:
    """1,000 definitions of 3 KiB of jobs that wait."""
    members = {**WAITING, "labels": {"a": TEXT}, "request": [{"url": "http://127.0.0.1:9/"}]}
    return json.dumps([members | {"jobId": f"many-{number}-{place}"} for place in range(1_000)]).encode()


def _definition(number: int) -> bytes:
    """One of nearly a MiB, most of it empty lists."""
    body = b"[" + b"[]," * (MIB // 3 - 200) + b"%d]" % number
    head = json.dumps({**WAITING, "jobId": f"one-{number}"}).encode()[:-1]
    return head + b',"request":[{"url":"http://127.0.0.1:9/","body":%s}]}' % body


async def run(name: str, one: Attack, seconds: float) -> None:
    """One attack on a service of its own."""
    print(f"{name}: {one.says}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            open_service(Path(folder) / "data", limits=one.limits) as service,
            open_bystander(service) as bystander,
            AsyncExitStack() as stack,
        ):
            await asyncio.sleep(REST)
            before = await _figures(bystander, seconds / 2)
            show("  before", {**before, "memory_mib": round(service.peak_memory())})
            async with one.begin(Scene(service, Stage(stack))):
                during = await _figures(bystander, seconds)
            show("  during", {**during, "memory_mib": round(service.peak_memory())})
            try:
                await bystander.check()
            except AssertionError as error:
                print(f"  NOT all of the bystander's executions succeeded: {error}", flush=True)


async def _figures(bystander: Bystander, seconds: float) -> dict[str, Any]:
    """Of the firings and the questions from now on, for so long."""
    seen = await bystander.look()
    arrivals, began = len(seen.arrivals), time.time() * 1000
    await asyncio.sleep(seconds)
    seen = await bystander.look()
    answers = [took for at, took in seen.health if at >= began]
    given = [took for took in answers if took is not None]
    return {
        **lateness(seen.arrivals[arrivals:]),
        "health_max_ms": max(given, default=None),
        "health_failed": len(answers) - len(given),
    }


async def main() -> None:
    """Runs the attacks that are named, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.attacks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(sorted(ATTACKS)))
    parser.add_argument("-s", "--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    if unknown := set(given.names) - set(ATTACKS):
        parser.error(f"no attack {', '.join(sorted(unknown))}; there are {', '.join(sorted(ATTACKS))}")
    for name in given.names or sorted(ATTACKS):
        await run(name, ATTACKS[name], given.seconds)


if __name__ == "__main__":
    uvloop.run(main())
