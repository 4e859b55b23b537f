"""A stream whose jobs cannot be looked up says what it could not tell, and goes on."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_service.api.event_stream import EventStreamResponse
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.event_feed import EventFeed, LocalEvents
from scheduler_service.telemetry.occurrences import Occurrences
from scheduler_service.telemetry.tally import Tally


@pytest.mark.parametrize("counts_gaps", [True, False])
async def test_events_whose_jobs_cannot_be_looked_up_are_a_gap(counts_gaps: bool) -> None:
    """A line of the log says why; those after them come as ever.

    It has their number for callers who may know it: it counts what happens to others, too (SPEC section 14).
    """
    occurrences = Occurrences()
    feed = EventFeed(source=LocalEvents(occurrences=occurrences, line="7"), most_readers=1)
    is_away, sent = True, asyncio.Queue[bytes]()
    lines: list[tuple[str, dict[str, object]]] = []
    faults = Tally("store_failed", log=lambda event, /, **keys: lines.append((event, keys)))

    async def look_up(ahead: Sequence[Occurrence]) -> None:
        if is_away:
            raise StoreUnavailable("away")

    async def send(message: Any) -> None:
        if message.get("body"):
            sent.put_nowait(message["body"])

    stream = EventStreamResponse(
        reader=await feed.follow(),
        wants=lambda occurrence: True,
        readers=lambda: feed.readers,
        wall=lambda: 0,
        store_faults=faults,
        look_up=look_up,
        counts_gaps=counts_gaps,
    )
    answering = asyncio.create_task(stream({}, asyncio.Event().wait, send))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        assert (await sent.get()).startswith(b"retry")
        for number in (1, 2):
            occurrences.publish(Occurrence(kind=OccurrenceKind.STARTED, at=number, job_id="one"))
        gap = await sent.get()
        assert b"event: gap" in gap
        assert (b'"count":2' in gap) is counts_gaps
        assert lines == [("store_failed", {"error": "away", "requests": 1})]
        is_away = False
        occurrences.publish(Occurrence(kind=OccurrenceKind.GAP, at=3, count=5))
        assert (b'"count":5' in await sent.get()) is counts_gaps
        occurrences.publish(Occurrence(kind=OccurrenceKind.STARTED, at=3, job_id="one"))
        assert b"event: started" in await sent.get()
        assert faults.counts == {"requests": 1}
        await feed.close()
        await answering
