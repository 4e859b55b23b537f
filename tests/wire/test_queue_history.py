"""The history of work that went through a queue (SPEC sections 10 and 13)."""

from typing import Any

from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import World, data_of, running


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
        added = ("traceparent", "X-Scheduling-Deadline")
        assert step["request"]["headers"] == {name: given[name] for name in given if name not in added}
        assert (step["url"], step["error"], step["fault"]) == ("queue://work", "disk", "full")
        assert step["response"]["body"] == '{"left":0}'


async def test_who_had_a_part_and_who_lost_it_is_told() -> None:
    """While it is worked on and afterwards, in the execution and in its log."""
    async with running() as world:
        step = {"leaseSeconds": 10, "unexpectedRetryDelaySeconds": 0}
        await create(world, step, timeoutSeconds=600)
        execution = await trigger(world)
        await claim(world, "w1")
        lines = [("claimed", "w1", "2026-01-01T00:00:00.000Z")]
        assert await _leases(world, execution) == lines
        await world.advance(10)
        lines.append(("lost", "w1", "2026-01-01T00:00:10.000Z"))
        assert await _leases(world, execution) == lines
        (item,) = await claim(world, "w2")
        data_of(await complete(world, item["lease"]))
        found = await world.ended(execution)
        assert found["attempts"][0]["steps"][0]["instance"] == "w2"
        lines.append(("claimed", "w2", "2026-01-01T00:00:10.000Z"))
        assert await _leases(world, execution) == lines
        log = data_of(await world.client.get(f"/executions/{execution}/log"))["items"]
        texts = [line["text"] for line in log if line["kind"] == "lease"]
        assert texts == ["claimed: w1", "lost: w1", "claimed: w2"]


async def test_work_that_nobody_has_claimed_is_shown_as_such() -> None:
    """How many parts wait for a claim, and how many are claimed; the log says where they wait."""
    async with running() as world:
        await create(world, {"parallelism": 3}, timeoutSeconds=600)
        execution = await trigger(world)
        await world.settle()
        assert await _queue(world, execution) == {
            "step": 0, "name": "work", "parts": 3, "unclaimed": 3, "claimed": 0, "ended": 0,
        }  # fmt: skip
        log = data_of(await world.client.get(f"/executions/{execution}/log"))["items"]
        (line,) = [line for line in log if line["kind"] == "queue"]
        assert (line["text"], line["step"]) == ("3 parts wait in queue work for a claim each", 0)
        items = [(await claim(world, f"w{number}"))[0] for number in range(2)]
        await world.settle()
        data_of(await complete(world, items[0]["lease"]))
        await world.settle()
        found = await _queue(world, execution)
        assert found is not None
        assert (found["unclaimed"], found["claimed"], found["ended"]) == (1, 1, 1)
        data_of(await complete(world, items[1]["lease"]))
        (last,) = await claim(world, "w2")
        data_of(await complete(world, last["lease"]))
        await world.ended(execution)
        assert await _queue(world, execution) is None


async def _queue(world: World, execution: str) -> dict[str, Any] | None:
    """What the execution's attempt has in a queue."""
    (attempt,) = data_of(await world.client.get(f"/executions/{execution}"))["attempts"]
    found: dict[str, Any] | None = attempt["queue"]
    return found


async def _leases(world: World, execution: str) -> list[tuple[str, str, str]]:
    await world.settle()
    (attempt,) = data_of(await world.client.get(f"/executions/{execution}"))["attempts"]
    return [(one["what"], one["instance"], one["at"]) for one in attempt["leases"]]
