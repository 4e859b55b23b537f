"""Definitions by chance against the whole service: never a 5xx, never half a job (SPEC section 10)."""

import asyncio
import json
import os
import pwd
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.wire.definitions import DEFINITIONS, JSON, near_definitions
from tests.wire.service import World, data_of, definition, pointers, running

BROKEN = frozenset(
    {
        "turn_failed",
        "sender_failed",
        "alarm_not_taken",
        "job_not_woken",
        "history_not_written",
        "records_changed",
    }
)
QUICK = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
FREE = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=QUICK)
FEW = settings(FREE, max_examples=5)
MANY = settings(FREE, max_examples=1_500)


class Room:
    """A service that outlives many examples, on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, world: World) -> None:
        self.runner = runner
        self.world = world
        self.number = 0

    def examine(self, check: Callable[[World, str], Awaitable[None]]) -> None:
        """Runs `check` with an id that no job has had."""
        self.number += 1
        self.runner.run(check(self.world, f"job-{self.number}"))


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    """One service for all examples of a module."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        world = runner.run(stack.enter_async_context(running()))
        yield Room(runner, world)
        runner.run(stack.aclose())


def body_of(value: Any) -> bytes:
    """JSON as a sloppy sender writes it: infinities and lone surrogates too."""
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


async def post(world: World, path: str, content: bytes) -> httpx.Response:
    """Posts raw JSON."""
    return await world.client.post(path, content=content, headers={"content-type": "application/json"})


def check_pointers(answer: httpx.Response, posted: Any) -> None:
    """Each error names a member that is there, or one that is missing in an object that is there."""
    for pointer, code in pointers(answer):
        assert pointer == "" or pointer.startswith("/"), pointer
        if pointer == "/jobId":
            continue
        value, tokens = posted, pointer.split("/")[1:]
        for place, token in enumerate(tokens):
            name = token.replace("~1", "/").replace("~0", "~")
            is_last = place == len(tokens) - 1
            if isinstance(value, list):
                assert name.isdigit(), (pointer, posted)
                assert int(name) < len(value), (pointer, posted)
                value = value[int(name)]
            else:
                assert isinstance(value, dict), (pointer, code, posted)
                assert name in value or (is_last and code == "required"), (pointer, code, posted)
                value = value.get(name)


async def examine(world: World, job_id: str, value: Any) -> int:
    """Posts `value`: a job that is there whole and works, or a problem and nothing at all; the status."""
    content = body_of(value)
    answer = await post(world, f"/jobs/{job_id}", content)
    assert answer.status_code in (201, 400, 422), answer.text
    if answer.status_code == 201:
        await use(world, job_id, value, data_of(answer, 201))
    else:
        check_pointers(answer, value)
        for path in ("", "/revisions", "/firings", "/executions", "/next"):
            assert (await world.client.get(f"/jobs/{job_id}{path}")).status_code == 404, path
        assert data_of(await world.client.get(f"/jobs?text={job_id}"))["items"] == []
    broken = [entry for entry in world.log if entry[0] in BROKEN]
    assert broken == []
    return answer.status_code


async def use(world: World, job_id: str, value: Any, created: Any) -> None:
    """A job that was made can be read, posted again, asked for its firings, run and destroyed."""
    shown = data_of(await world.client.get(f"/jobs/{job_id}"))
    user = pwd.getpwuid(os.geteuid()).pw_name
    whole = complete(value, {"jobId": job_id, "creator": user, "creatorName": user})
    assert shown["definition"] == created["definition"] == whole
    assert (await post(world, f"/jobs/{job_id}", body_of(value))).status_code == 200
    for path in ("/next?count=3", "/revisions", "/firings"):
        data_of(await world.client.get(f"/jobs/{job_id}{path}"))
    triggered = await post(world, f"/jobs/{job_id}/trigger", b'{"n": 1}')
    assert triggered.status_code in ((409,) if shown["disabled"] else (200, 422)), triggered.text
    await world.settle()
    data_of(await world.client.put(f"/jobs/{job_id}?active=0"))
    data_of(await world.client.put(f"/jobs/{job_id}?active=1"))
    data_of(await world.client.delete(f"/jobs/{job_id}"))
    await world.settle()


def complete(value: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    """`value` with the members that the service knows where they are absent (SPEC section 2)."""
    return value | {name: text for name, text in known.items() if value.get(name) is None}


def sweep(chosen: settings, strategy: st.SearchStrategy[Any], room: Room) -> list[int]:
    """Examines what `strategy` gives; the statuses."""
    statuses: list[int] = []

    @chosen
    @given(strategy)
    def each(value: Any) -> None:
        async def check(world: World, job_id: str) -> None:
            statuses.append(await examine(world, job_id, value))

        room.examine(check)

    each()
    return statuses


SWEEPS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.long)]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", SWEEPS)
def test_definitions_by_the_book_become_jobs_that_work(room: Room, chosen: settings) -> None:
    """Each is a job that can be read, run, paused and destroyed, or is refused for a reason that is named."""
    statuses = sweep(chosen, DEFINITIONS, room)
    assert statuses.count(201) > len(statuses) / 4


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", SWEEPS)
def test_definitions_that_are_a_little_off(room: Room, chosen: settings) -> None:
    """A 4xx with a pointer and no trace of a job, or a job that works (SPEC section 10)."""
    statuses = sweep(chosen, near_definitions(), room)
    assert 422 in statuses


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", SWEEPS)
def test_anything_at_all(room: Room, chosen: settings) -> None:
    """Any JSON as a definition is refused with 4xx and leaves nothing."""
    assert set(sweep(chosen, JSON, room)) <= {400, 422}


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", SWEEPS)
def test_an_update_that_is_refused_changes_nothing(room: Room, chosen: settings) -> None:
    """Bad input never gives a partial change (SPEC section 10)."""

    @chosen
    @given(near_definitions())
    def each(value: Any) -> None:
        async def check(world: World, job_id: str) -> None:
            data_of(await world.client.post(f"/jobs/{job_id}", json=definition()), 201)
            before = data_of(await world.client.get(f"/jobs/{job_id}"))
            answer = await post(world, f"/jobs/{job_id}/update", body_of(value))
            assert answer.status_code in (200, 400, 422), answer.text
            after = data_of(await world.client.get(f"/jobs/{job_id}"))
            if answer.status_code == 200:
                assert after["revision"] == 2
                kept = {name: before["definition"][name] for name in ("jobId", "creator", "creatorName")}
                assert after["definition"] == complete(value, kept)
            else:
                check_pointers(answer, value)
                assert after == before
            await world.client.delete(f"/jobs/{job_id}")

        room.examine(check)

    each()


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("chosen", SWEEPS)
def test_arrays_are_taken_item_by_item(room: Room, chosen: settings) -> None:
    """One result per item, in order; what is refused leaves nothing, all else is there (SPEC section 10)."""

    @settings(chosen, max_examples=chosen.max_examples // 5)
    @given(st.lists(DEFINITIONS | near_definitions() | JSON, max_size=5))
    def each(values: list[Any]) -> None:
        async def check(world: World, job_id: str) -> None:
            named = [
                {**value, "jobId": f"{job_id}-{place}"} if isinstance(value, dict) else value
                for place, value in enumerate(values)
            ]
            answer = await post(world, "/jobs", body_of(named))
            if answer.status_code in (400, 422):
                assert data_of(await world.client.get(f"/jobs?text={job_id}-"))["items"] == []
                return
            results = data_of(answer)["items"]
            assert len(results) == len(values)
            made = [one["jobId"] for one in results if one["status"] == "created"]
            listed = data_of(await world.client.get(f"/jobs?text={job_id}-"))["items"]
            assert [one["jobId"] for one in listed] == sorted(made)
            for one in results:
                assert (one["problem"] is None) == (one["status"] == "created")
            for name in made:
                data_of(await world.client.delete(f"/jobs/{name}"))

        room.examine(check)

    each()
