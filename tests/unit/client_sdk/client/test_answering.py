"""An answer of the service as the error that it means (SPEC section 10)."""

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Absent, Conflict, Invalid, Unreadable
from tests.unit.client_sdk.client.lossy_connection import Line
from tests.wire.service import SERVED, definition, running


async def test_refusals_are_typed() -> None:
    """Each status is an error of its own, with everything that is wrong in it."""
    async with running() as world:
        jobs = Line(world).jobs
        with pytest.raises(Absent) as absent:
            await jobs.get("nowhere")
        assert absent.value.codes == {"absent"}
        with pytest.raises(Invalid) as invalid:
            await jobs.create(definition(colour="blue"), job_id="one")
        assert [(flaw.pointer, flaw.code) for flaw in invalid.value.errors] == [("/colour", "unknown_field")]
        await jobs.create(definition(), job_id="one")
        with pytest.raises(Conflict):
            await jobs.create(definition(jobName="other"), job_id="one")


async def test_what_is_no_scheduler_is_said_so() -> None:
    """A proxy's page and a stranger's JSON are neither data nor a problem."""
    for answer in (httpx.Response(200, text="<html>"), httpx.Response(200, json=[]), httpx.Response(404)):
        with pytest.raises(Unreadable, match="not as a"):
            await Line(None, answer).jobs.get("one")


async def test_a_route_that_does_not_exist_is_no_absent_thing() -> None:
    """A path too much in the URL, as in `http://HOST:PORT/jobs`: the address is wrong, nothing is missing."""
    async with running() as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client(f"{SERVED}/jobs", transport=transport) as client:
            with pytest.raises(Unreadable, match="answered 404, but not as a scheduler does: check the url"):
                await client.services.heartbeat("files", "one")
        async with Client(SERVED, transport=transport) as client:
            with pytest.raises(Absent):
                await client.services.heartbeat("files", "one")
