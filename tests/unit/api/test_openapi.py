"""The description of the API says what the API does (SPEC section 10)."""

import asyncio
import re
import threading
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import OPERATIONS
from scheduler_service.hosts.work_thread import work_apart
from tests.unit.api.world import World


@pytest.fixture
async def document(client: httpx.AsyncClient) -> Any:
    """The served description."""
    return (await client.get("/openapi.json")).json()


async def test_every_operation_is_described(document: Any) -> None:
    """OpenAPI 3.1 with an id per operation, each once (SPEC section 10)."""
    assert document["openapi"].startswith("3.1")
    described = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {one.name: (one.method, one.path) for one in OPERATIONS}
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)


async def test_it_is_written_once(client: httpx.AsyncClient) -> None:
    """A later reader needs nothing of the thread for large work: it is answered while that is occupied."""
    first = await client.get("/openapi.json")
    release, is_occupied, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def occupy() -> None:
        loop.call_soon_threadsafe(is_occupied.set)
        release.wait()

    occupied = asyncio.ensure_future(work_apart(occupy))
    await is_occupied.wait()
    try:
        async with asyncio.timeout(30):
            again = await client.get("/openapi.json")
    finally:
        release.set()
        await occupied
    assert again.content == first.content


async def test_references_lead_somewhere(document: Any) -> None:
    """Each `$ref` names a schema of the document."""
    names = set(re.findall(r"#/components/schemas/([\w\[\]]+)", str(document)))
    assert names <= document["components"]["schemas"].keys()
    # Examples use addresses that mean nothing to others
    assert not re.search(
        r"(?<!127\.0\.0\.1)\b(?:\d{1,3}\.){3}\d{1,3}\b", str(document).replace("127.0.0.1", "")
    )


async def test_the_examples_work_as_they_stand(document: Any, world: World) -> None:
    """A body shown as an example is accepted."""
    async with world.client() as client:
        for name in ("createJob", "previewTimer", "previewTemplate", "createJobs"):
            one = next(operation for operation in OPERATIONS if operation.name == name)
            example = document["paths"][one.path][one.method.lower()]["requestBody"]["content"]
            response = await client.post(
                one.path.replace("{jobId}", "example"), json=example["application/json"]["example"]
            )
            assert response.is_success, response.text
            if name == "createJobs":
                assert response.json()["data"]["items"][0]["status"] == "created"


IDS = """
backfillJob cancelExecution cancelOperation changeManyExecutions changeManyJobs checkDefinition claimWork
cleanHistory compareDefinitions completeWork countDeliveries countExecutions countJobs countQueued
countUpcoming createJob createJobs deleteCalendar deleteSecret destroyFamily destroyJob destroyJobBySourcePath
dismissDelivery freePart listAlerts listAudit listCalendars listDeliveries listExecutions
listExecutionsBySourcePath listExecutionsOfJob listFirings listJobs listNodes listOutcomes listKeys listQueues
listRevisions listSecrets listServices listUpcoming makeKey pauseQueue pauseService previewCalendar
previewService previewTemplate previewTimer putCalendar putInstance putSecret putService readCalendarDays
readChildLogs readChildLogsByExecution readDates readExecution readResult readJob readKey readLog
readOperation readQueue readService releaseExecution removeInstance removeService renewLease replayExecution
reportFeedback resendDelivery resumeQueue resumeService revokeKey rotateKey sayAlive sayReady
showDailyStatistics showDefinitionSchema showDrift showMetrics showNextFirings showOutlook showRetryPlan
showSeries showSession showSettings showStatistics showStatisticsOfJob signIn signOut streamEvents switchJob
takeHeartbeat triggerJob tryDefinition updateJob
"""


def test_the_ids_of_operations_stay() -> None:
    """Generated clients name their methods after them."""
    assert sorted(operation.name for operation in OPERATIONS) == sorted(IDS.split())


async def test_generators_can_read_it(document: Any) -> None:
    """Limits in the words of JSON Schema; numbers of 64 bits; no titles, after which types would be named."""
    schemas = document["components"]["schemas"]
    number = {"default": 2, "type": "integer", "format": "int64", "minimum": 0, "maximum": 1_000_000_000}
    assert schemas["RetryPolicy"]["properties"]["maxAttempts"] == number
    assert schemas["RetryPolicy"]["properties"]["backoffRate"]["format"] == "double"
    assert not re.search(r"'(ge|le)': -?\d|'title': '", str(schemas))
