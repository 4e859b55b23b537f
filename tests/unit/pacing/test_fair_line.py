"""A line in which owners take turns."""

import asyncio

import pytest

from scheduler_service.pacing.fair_line import FairLine, FairSlots


def line_of(*things: str) -> FairLine[str, int]:
    """Each thing is named after its owner: `a1` is one of `a`."""
    line: FairLine[str, int] = FairLine()
    for place, thing in enumerate(things):
        line.add(thing, place, thing[0])
    return line


def drain(line: FairLine[str, int]) -> list[str]:
    return [line.pop()[0] for _ in range(len(line))]


def test_owners_take_turns_and_each_has_its_own_in_order() -> None:
    """However many things the first of them has in line."""
    assert drain(line_of("a1", "a2", "a3", "a4", "b1", "b2", "c1")) == [
        "a1",
        "b1",
        "c1",
        "a2",
        "b2",
        "a3",
        "a4",
    ]
    assert drain(line_of("a1", "a2", "a3")) == ["a1", "a2", "a3"]


def test_who_comes_anew_waits_for_one_thing_of_each_other_owner() -> None:
    """Also one that was in line before, and had nothing more."""
    line = line_of("a1", "a2", "a3", "b1", "c1", "c2")
    assert [line.pop()[0] for _ in range(2)] == ["a1", "b1"]
    line.add("b2", 0, "b")
    assert drain(line) == ["c1", "a2", "b2", "c2", "a3"]
    # With the value of its first coming; whoever has left is not counted
    line = line_of("a1", "a2", "b1")
    line.add("a1", 99, "a")
    assert len(line) == 3
    assert line.discard("b1", "b")
    assert not line.discard("b1", "b")
    assert not line.discard("a9", "a")
    assert len(line) == 2
    assert [line.pop(), line.pop()] == [("a1", 0), ("a2", 1)]
    with pytest.raises(StopIteration):
        line.pop()


def test_others_pass_owners_that_have_much() -> None:
    """In turn; these keep their places."""
    line = line_of("a1", "a2", "b1", "c1", "b2")
    assert [line.pop_beside({"a"}) for _ in range(4)] == [("b1", 2), ("c1", 3), ("b2", 4), None]
    assert drain(line) == ["a1", "a2"]


@pytest.mark.anyio
async def test_owners_take_turns_at_slots_and_who_gives_up_keeps_none() -> None:
    """Also one that is cancelled when it has just been given a slot."""
    slots, had = FairSlots(2), list[str]()

    async def work(name: str) -> None:
        await slots.acquire(name[0])
        had.append(name)

    tasks = {
        name: asyncio.create_task(work(name)) for name in ("a1", "a2", "a3", "a4", "a5", "b1", "b2", "c1")
    }
    await asyncio.sleep(0)
    assert had == ["a1", "a2"]
    tasks["b2"].cancel()
    slots.release()  # for a3, which does not go on any more
    tasks["a3"].cancel()
    await asyncio.sleep(0)
    for _ in range(4):
        slots.release()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert had == ["a1", "a2", "b1", "c1", "a4", "a5"]
