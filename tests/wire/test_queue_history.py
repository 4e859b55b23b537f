"""The history of work that went through a queue (SPEC sections 10 and 13)."""

import pytest

from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import data_of, running

pytestmark = pytest.mark.anyio


async def test_the_history_shows_what_was_asked_and_what_was_said() -> None:
    """The request as the instance was given it, and the data of a failed part beside its error."""
    async with running() as world:
        await create(world, {"headers": {"X-Album": "7"}})
        execution = await trigger(world, 3)
        (item,) = await claim(world)
        said = {"status": "failed", "error": "disk", "message": "full", "data": {"left": 0}}
        data_of(await complete(world, item["lease"], **said))
        (step,) = (await world.ended(execution))["attempts"][0]["steps"]
        assert step["request"]["body"] == '{"n":3}'
        given = item["request"]["headers"]
        assert step["request"]["headers"] == {name: given[name] for name in given if name != "traceparent"}
        assert (step["url"], step["error"], step["fault"]) == ("queue://work", "disk", "full")
        assert step["response"]["body"] == '{"left":0}'


async def test_parts_are_listed_by_their_index() -> None:
    """Not in the order in which they were completed."""
    async with running() as world:
        await create(world, {"parallelism": 3, "body": "${schedulingShardIndex}"})
        execution = await trigger(world)
        items = [(await claim(world, f"w{number}"))[0] for number in range(3)]
        for item in reversed(items):
            data_of(await complete(world, item["lease"], data=item["shardIndex"]))
        steps = (await world.ended(execution))["attempts"][0]["steps"]
        assert [step["part"] for step in steps] == [0, 1, 2, None]
        assert [step["request"]["body"] for step in steps] == ['"0"', '"1"', '"2"', None]
