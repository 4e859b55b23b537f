"""What the API sums up in the log is written at the end, too."""

from tests.wire.service import running


async def test_the_last_requests_that_the_store_failed_are_counted() -> None:
    """The first is told at once; those after it with the end of the service, if not before."""
    async with running() as world:
        faults = world.service.api_parts.store_faults
        for number in range(3):
            faults.count("requests", error=f"full {number}")
        await world.stop()
        world.service.flush_log()
        told = [keys for event, keys in world.log if event == "store_failed"]
    assert told == [{"requests": 1, "error": "full 0"}, {"requests": 2, "error": "full 2"}]
