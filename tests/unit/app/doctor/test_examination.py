"""All parts together."""

import asyncio

from scheduler_service.app.doctor.examination import examine
from scheduler_service.app.doctor.finding import (
    DoctorFinding,
    ExaminedPart,
    ExaminedService,
    FindingState,
    worst_of,
)
from tests.unit.app.doctor.subjects import states, subject


async def test_a_part_that_hangs_holds_up_no_other() -> None:
    """It is failed, and the next one is examined."""

    async def hang(_: ExaminedService) -> list[DoctorFinding]:
        await asyncio.get_running_loop().create_future()
        return []

    async def answer(_: ExaminedService) -> list[DoctorFinding]:
        return [ExaminedPart("second").well("here", "it is")]

    found = await examine(subject(), parts={"first": hang, "second": answer}, seconds=0.01)
    assert found[0].part == "first"
    assert states(found)["answer"] == "failed"
    assert states(found)["here"] == "ok"
    assert worst_of(found) is FindingState.FAILED


async def test_a_part_that_cannot_be_read_holds_up_no_other() -> None:
    """A server may say anything: there is no stack trace."""

    async def stumble(_: ExaminedService) -> list[DoctorFinding]:
        raise TypeError("what is this?")

    async def answer(_: ExaminedService) -> list[DoctorFinding]:
        return [ExaminedPart("second").well("here", "it is")]

    found = await examine(subject(), parts={"first": stumble, "second": answer})
    assert (found[0].part, found[0].state, states(found)["here"]) == ("first", "failed", "ok")
    assert "TypeError: what is this?" in found[0].detail


async def test_the_clock_is_looked_at_last() -> None:
    """What was measured is over the whole examination."""
    found = await examine(subject(), parts={})
    assert [one.check for one in found] == ["kept right", "step"]
    assert worst_of(found) in (FindingState.OK, FindingState.WARNING)
