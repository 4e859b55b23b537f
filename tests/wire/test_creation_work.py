"""What a job costs that is created in an array, counted and not timed."""

import json
import sys
from types import FrameType

from tests.wire.service import World, definition, running

ARRAY = 500
MOST = 98
"""The options of its service and the line of the audit are 2.5 of them, the look for repeated names 1."""


async def test_a_job_in_an_array_calls_few_functions() -> None:
    """Python's own functions on the loop's thread, from the body of the request to its answer.

    Somebody who needs more says so here, with what it costs. The fewest of three
    count: where the processor is taken away, slices end by their time, and other rounds are counted.
    """
    async with running() as world:
        await create(world, array("first"))
        calls = min([await count_calls(world, array(name)) for name in ("second", "third", "fourth")])
        assert MOST / 2 < calls / ARRAY < MOST


def array(name: str) -> bytes:
    """Definitions of one shape that differ in their ids."""
    return json.dumps([definition(jobId=f"{name}-{number}") for number in range(ARRAY)]).encode()


async def create(world: World, body: bytes) -> None:
    """Posts the array, of which nothing may be there yet."""
    answer = await world.client.post("/jobs", content=body, headers={"content-type": "application/json"})
    assert {item["status"] for item in answer.json()["data"]["items"]} == {"created"}


async def count_calls(world: World, body: bytes) -> int:
    """How many functions are called until the array is created."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await create(world, body)
    finally:
        sys.setprofile(before)
    return counted
