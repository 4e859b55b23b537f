"""What a job costs that is created in an array, counted and not timed."""

import json
import sys
from functools import cache
from pathlib import Path
from types import FrameType

import scheduler_service
from tests.wire.service import World, definition, running

ARRAY = 500
MOST = 93
"""The options of its service and the line of the audit are 2.5 of them, the look for repeated names 1.

It is 94.8 on a quiet processor, and 95 where slices are many.
"""
PRODUCT = str(Path(scheduler_service.__file__).parent)


async def test_a_job_in_an_array_calls_few_functions() -> None:
    """The product's own functions on the loop's thread, from the body of the request to its answer.

    Somebody who needs more says so here, with what it costs. The rounds of the loop are not counted: a slice
    ends by its time, and there are more of them where the processor is taken away.
    """
    async with running() as world:
        await create(world, array("first"))
        assert MOST - 2 < await count_calls(world, array("second")) / ARRAY < MOST


def array(name: str) -> bytes:
    """Definitions of one shape that differ in their ids."""
    return json.dumps([definition(jobId=f"{name}-{number}") for number in range(ARRAY)]).encode()


async def create(world: World, body: bytes) -> None:
    """Posts the array, of which nothing may be there yet."""
    answer = await world.client.post("/jobs", content=body, headers={"content-type": "application/json"})
    assert {item["status"] for item in answer.json()["data"]["items"]} == {"created"}


@cache
def is_counted(file: str) -> bool:
    """Whether it is of the product, and not what shares the loop by the clock."""
    return file.startswith(PRODUCT) and "/pacing/" not in file


async def count_calls(world: World, body: bytes) -> int:
    """How many functions are called until the array is created."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event == "call" and is_counted(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await create(world, body)
    finally:
        sys.setprofile(before)
    return counted
