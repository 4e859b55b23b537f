"""What is allowed, as large as it is allowed, without a pause."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

from tests.attack.client import open_client, post
from tests.bench.attacks.callers import go_on
from tests.bench.attacks.registry import Scene, attack

MIB = 1 << 20
TEXT = "x" * (3 << 10)
LATER = {"dueTime": "2035-01-01 00:00:00", "period": "0s"}
JOB = {"jobName": "large", "creator": "bench", "creatorName": "bench", "timer": LATER}


def _array(number: int) -> bytes:
    """1,000 definitions of 3 KiB of jobs that wait."""
    request = [{"url": "http://127.0.0.1:9/"}]
    jobs = [
        {**JOB, "jobId": f"many-{number}-{place}", "labels": {"a": TEXT}, "request": request}
        for place in range(1_000)
    ]
    return json.dumps(jobs).encode()


def _definition(number: int) -> bytes:
    """One of nearly a MiB, most of it empty lists."""
    body = b"[" + b"[]," * (MIB // 3 - 200) + b"%d]" % number
    head = json.dumps({**JOB, "jobId": f"one-{number}"}).encode()[:-1]
    return head + b',"request":[{"url":"http://127.0.0.1:9/","body":%s}]}' % body


# Made beforehand: the bystander's target is in this process, and would be late itself.
ARRAYS = [post("/jobs", _array(number)) for number in range(4)]
DEFINITIONS = [post(f"/jobs/one-{number}", _definition(number)) for number in range(20)]


@attack("sizes")
async def bodies_as_large_as_allowed(scene: Scene) -> AsyncIterator[None]:
    """A caller with arrays of 4 MiB, one with definitions of a MiB, each as soon as the last is answered."""
    numbers = itertools.count()

    async def ask_many() -> None:
        async with open_client(scene.service.url) as client:
            await client.say(ARRAYS[next(numbers) % len(ARRAYS)])
            await client.answer()

    async def ask_one() -> None:
        number = next(numbers) % len(DEFINITIONS)
        async with open_client(scene.service.url) as client:
            await client.say(DEFINITIONS[number])
            await client.answer()

    callers = [asyncio.create_task(go_on(ask)) for ask in (ask_many, ask_one)]
    yield
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
