"""Operations: progress, cancellation, bounds, and what a crash leaves of one (SPEC section 10)."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from scheduler_service.domain.moments import DAY
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.operations.operation_run import MOST_FAULTS, Operation, Outcome
from scheduler_service.hosts.operations.operations import (
    AT_ONCE,
    MOST_RUNNING,
    SILENCE_MS,
    NoRoom,
    Operations,
)
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Remembered
from tests.unit.api.stores import MemoryStore
from tests.unit.api.world import World, definition, pointers

pytestmark = pytest.mark.anyio
MANY = 150


class SlowStore(MemoryStore):
    """Keeps a record while `may_write` is set; first it refuses the next `refusals`, or raises `defect`."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.refusals = 0
        self.defect: Exception | None = None

    async def remember(self, remembered: Remembered) -> None:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("away")
        if self.defect is not None:
            raise self.defect
        await self.may_write.wait()
        await super().remember(remembered)

    async def remember_first(self, remembered: Remembered, since: int) -> bool:
        await self.may_write.wait()
        return await super().remember_first(remembered, since)


class HeldWorld(World):
    """A scheduler in which commands wait while `go` is not set and none of `room` is left.

    `waiting` counts those that wait; the next `defects` commands after that raise what nothing expects.
    Records are brought up to date every `save_seconds`, in `records`.
    """

    def __init__(
        self,
        *,
        node: str = "node",
        boot: str = "first",
        save_seconds: float = 0.001,
        patience: float = 0,
        **settings: Any,
    ) -> None:
        self.holder = Holder(node, boot)
        self.save_seconds = save_seconds
        self.patience = patience
        self.records = SlowStore()
        self.go = asyncio.Event()
        self.go.set()
        self.room = 0
        self.waiting = 0
        self.defects = 0
        super().__init__(**settings)

    async def deliver(self, job_id: str, command: Command) -> Reply:
        if self.room:
            self.room -= 1
        else:
            self.waiting += 1
            await self.go.wait()
            self.waiting -= 1
        if self.defects:
            self.defects -= 1
            raise KeyError("a defect")
        return await super().deliver(job_id, command)

    def make_operations(self) -> Operations:
        self.records.kept = self.store.kept
        return Operations(
            store=self.records,
            clock=self,
            holder=self.holder,
            log=self.log,
            save_seconds=self.save_seconds,
            patience=self.patience,
        )

    def restart(self, **options: Any) -> "HeldWorld":
        """Another one over what of this one is durable now."""
        after = HeldWorld(**options)
        after.store.kept.update(self.store.kept)
        after.documents = dict(self.documents)
        after.catalogue.entries, after.history.runs = dict(self.catalogue.entries), dict(self.history.runs)
        return after

    async def hold(self, client: httpx.AsyncClient, *, room: int = 0, **options: Any) -> str:
        """An operation that is under way, and held after `room` commands; its id."""
        self.go.clear()
        self.room = room
        operation_id: str = (await begin(client, **options))["operationId"]
        await until(lambda: self.waiting == AT_ONCE)
        return operation_id


async def until(condition: Callable[[], bool]) -> None:
    """Returns when the condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - of another task, which tells nobody
            await asyncio.sleep(0)


@pytest.fixture
def world() -> HeldWorld:
    """Its records are brought up to date all the time."""
    return HeldWorld()


@pytest.fixture
async def client(world: HeldWorld) -> AsyncIterator[httpx.AsyncClient]:
    """A caller, and many jobs."""
    body = [{"jobId": f"j{number}", **definition()} for number in range(MANY)]
    async with world.client() as client:
        assert (await client.post("/jobs", json=body)).is_success
        yield client


ALL = {"action": "trigger", "select": {"filter": {}}}


async def begin(client: httpx.AsyncClient, body: dict[str, Any] = ALL, **options: Any) -> dict[str, Any]:
    """An operation that goes on."""
    answer = await client.post("/bulk/jobs", json=body, **options)
    assert answer.status_code == 202
    operation: dict[str, Any] = answer.json()["data"]["operation"]
    assert answer.headers["location"] == f"/operations/{operation['operationId']}"
    assert (operation["state"], operation["endedAt"]) == ("running", None)
    return operation


async def read(client: httpx.AsyncClient, operation_id: str) -> dict[str, Any]:
    """The operation now."""
    data: dict[str, Any] = (await client.get(f"/operations/{operation_id}")).json()["data"]
    return data


async def ended(client: httpx.AsyncClient, operation_id: str) -> dict[str, Any]:
    """The operation at its end."""
    async with asyncio.timeout(30):
        while (operation := await read(client, operation_id))["state"] == "running":  # noqa: ASYNC110 - a task tells nobody
            await asyncio.sleep(0)
    return operation


async def test_many_are_done_a_few_at_a_time(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """The answer comes at once; the progress is read; no more than a few commands are under way."""
    operation_id = await world.hold(client, room=100)
    half = await read(client, operation_id)
    assert (half["total"], half["done"], half["state"]) == (MANY, 100, "running")
    assert world.waiting == AT_ONCE
    world.go.set()
    whole = await ended(client, operation_id)
    assert (whole["done"], whole["succeeded"], whole["state"]) == (MANY, MANY, "done")
    assert (len(whole["started"]), whole["moreStarted"]) == (100, MANY - 100)


async def test_a_cancelled_one_begins_nothing_more(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """What is done stays done, what is under way ends, the rest is left."""
    operation_id = await world.hold(client)
    stopped = await client.post(f"/operations/{operation_id}/cancel")
    assert stopped.json()["data"]["state"] == "running"
    world.go.set()
    left = await ended(client, operation_id)
    assert (left["state"], left["done"]) == ("cancelled", AT_ONCE)
    again = await client.post(f"/operations/{operation_id}/cancel")
    assert again.json()["data"]["state"] == "cancelled"
    assert len(world.history.runs) == AT_ONCE


async def test_another_process_reads_and_cancels_it(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """Through the store, as the nodes of a cluster do."""
    operation_id = await world.hold(client)
    other = HeldWorld(node="other")
    other.store.kept = other.records.kept = world.store.kept
    async with other.client() as elsewhere:
        seen = await read(elsewhere, operation_id)
        assert (seen["state"], seen["node"]) == ("running", "node")
        assert (await elsewhere.post(f"/operations/{operation_id}/cancel")).is_success
        found = await world.deps.upkeep.operations.find("default", operation_id)
        assert found is not None
        await until(lambda: found.is_stopped)
        world.go.set()
        left = await ended(client, operation_id)
        assert (left["state"], left["done"]) == ("cancelled", AT_ONCE)
        assert await read(elsewhere, operation_id) == left


async def test_one_that_a_crash_ended_is_sent_again(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """It is interrupted once it is silent; under the same key the rest is done, and nothing twice."""
    key = {"Idempotency-Key": "k"}
    operation_id = await world.hold(client, room=100, headers=key)
    after = world.restart(node="other")
    assert len(after.history.runs) == 100
    async with after.client() as back:
        assert (await read(back, operation_id))["state"] == "running"
        repeated = (await back.post("/bulk/jobs", json=ALL, headers=key)).json()["data"]
        assert repeated["operation"]["state"] == "running"
        assert len(after.history.runs) == 100
        after.wall += SILENCE_MS + 1
        assert (await read(back, operation_id))["state"] == "interrupted"
        assert (await begin(back, headers=key))["operationId"] == operation_id
        assert (await ended(back, operation_id))["succeeded"] == MANY
        assert len(after.history.runs) == MANY


async def test_the_next_start_of_its_node_knows_that_it_ended(
    client: httpx.AsyncClient, world: HeldWorld
) -> None:
    """At once: nobody but this node could go on with it."""
    operation_id = await world.hold(client, room=100)
    async with world.restart(boot="second").client() as back:
        assert (await read(back, operation_id))["state"] == "interrupted"
    # The same at every node and at every look, however late
    second, other = world.restart(boot="second"), world.restart(node="other")
    async with second.client() as back, other.client() as elsewhere:
        assert (await read(elsewhere, operation_id))["endedAt"] is None
        found = await read(back, operation_id)
        assert found["endedAt"] == found["updatedAt"] is not None
        for later in (second, other):
            later.wall += SILENCE_MS + 1
        assert await read(back, operation_id) == await read(elsewhere, operation_id) == found


async def test_an_end_is_shown_when_it_is_durable() -> None:
    """A crash between the last command and the record: it is interrupted, and nothing is done twice."""
    world, key = HeldWorld(save_seconds=60), {"Idempotency-Key": "k"}
    async with world.client() as client:
        assert (
            await client.post("/jobs", json=[{"jobId": f"j{n}", **definition()} for n in range(MANY)])
        ).is_success
        operation_id = await world.hold(client, room=100, headers=key)
        world.records.may_write.clear()
        world.go.set()
        await until(lambda: len(world.history.runs) == MANY)
        for _ in range(10):
            found = await read(client, operation_id)
            assert (found["state"], found["endedAt"]) == ("running", None)
        async with world.restart(boot="second").client() as back:
            assert (await read(back, operation_id))["state"] == "interrupted"
            again = await begin(back, headers=key)
            assert again["operationId"] == operation_id
            assert (await ended(back, operation_id))["succeeded"] == MANY
        world.records.may_write.set()
        assert (await ended(client, operation_id))["done"] == MANY
        async with world.restart(boot="third").client() as back:
            assert (await read(back, operation_id))["state"] == "done"


async def test_an_end_is_written_once_the_store_is_back(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """It is tried until the store takes it."""
    operation_id = await world.hold(client)
    world.records.refusals = 20
    world.go.set()
    assert (await ended(client, operation_id))["state"] == "done"
    assert world.records.refusals == 0
    async with world.restart(boot="second").client() as back:
        assert (await read(back, operation_id))["state"] == "done"


async def test_a_process_that_ends_leaves_it_interrupted(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """What is under way is done, nothing more begins, and its record says so; other ones are refused."""
    operation_id = await world.hold(client)
    stopping = asyncio.create_task(world.deps.upkeep.operations.stop(60_000))
    await asyncio.sleep(0)
    refused = await client.post("/bulk/jobs", json=ALL)
    assert (refused.status_code, pointers(refused)) == (429, [("", "limit")])
    world.go.set()
    await stopping
    async with world.restart(node="other").client() as back:
        left = await read(back, operation_id)
    assert (left["state"], left["done"], left["total"]) == ("interrupted", AT_ONCE, MANY)
    assert left["endedAt"] is not None


async def test_a_process_waits_for_no_command_beyond_its_deadline(
    client: httpx.AsyncClient, world: HeldWorld
) -> None:
    """Commands that do not end are given up, and the record is written."""
    operation_id = await world.hold(client)
    await world.deps.upkeep.operations.stop(20)
    async with world.restart(node="other").client() as back:
        left = await read(back, operation_id)
    assert (left["state"], left["done"]) == ("interrupted", 0)


async def test_no_more_than_a_few_run(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """The next one is refused with 429 until one has ended; a dry run is not."""
    world.go.clear()
    running = [(await begin(client))["operationId"] for _ in range(MOST_RUNNING)]
    refused = await client.post("/bulk/jobs", json=ALL)
    assert (refused.status_code, pointers(refused)) == (429, [("", "limit")])
    assert refused.headers["retry-after"] == "10"
    assert (await client.post("/bulk/jobs", json=ALL | {"dryRun": True})).status_code == 200
    world.deps.upkeep.operations.check_room("another")  # whose operations are not held up
    world.go.set()
    for operation_id in running:
        await ended(client, operation_id)
    assert (await client.post("/bulk/jobs", json=ALL)).is_success


async def test_it_ends_where_the_store_is_away(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """What failed is reported, and nothing is done any more; it is interrupted."""
    operation_id = await world.hold(client)
    world.fault = StoreUnavailable("away")
    world.go.set()
    operation = await ended(client, operation_id)
    assert operation["state"] == "interrupted"
    assert 1 <= operation["failed"] <= AT_ONCE
    assert operation["problems"][0]["problem"]["status"] == 503


async def test_what_meets_a_store_that_is_away_is_asked_again() -> None:
    """As while a worker process starts again: all are done in the end, each once, and none is named."""
    world = HeldWorld(patience=60)
    async with world.client() as client:
        body = [{"jobId": f"j{number}", **definition()} for number in range(MANY)]
        assert (await client.post("/jobs", json=body)).is_success
        operation_id = await world.hold(client)
        world.faults = [StoreUncertain("cut off") for _ in range(AT_ONCE + 1)]
        world.go.set()
        operation = await ended(client, operation_id)
    assert (operation["state"], operation["succeeded"], operation["failed"]) == ("done", MANY, 0)
    assert (len(world.history.runs), world.faults) == (MANY, [])


@pytest.mark.parametrize("action", ["trigger", "destroy"])
async def test_a_repetition_goes_on_with_what_was_chosen(
    client: httpx.AsyncClient, world: HeldWorld, action: str
) -> None:
    """Not with a job that was created since, not even one of the same id; what is gone is done."""
    key, body = {"Idempotency-Key": "k"}, {"action": action, "select": {"filter": {}}}
    operation_id = await world.hold(client, room=100, body=body, headers=key)
    after = world.restart(boot="second")
    async with after.client() as back:
        assert (await read(back, operation_id))["state"] == "interrupted"
        await back.delete("/jobs/j99")
        for job_id in ("new", "j99"):
            assert (await back.post(f"/jobs/{job_id}", json=definition())).status_code == 201
        assert (await begin(back, body, headers=key))["operationId"] == operation_id
        operation = await ended(back, operation_id)
        lost = 0 if action == "destroy" else 1
        assert (operation["state"], operation["total"], operation["failed"]) == ("done", MANY, lost)
        for job_id in ("new", "j99"):
            found = (await back.get(f"/jobs/{job_id}")).json()["data"]
            assert (found["state"] != "destroyed", found["executeNumber"]) == (True, 0)
        left = (await back.get("/jobs?limit=500")).json()["data"]["items"]
        assert len(left) == (2 if action == "destroy" else MANY + 1)


async def test_a_request_that_comes_twice_at_a_moment_begins_one(
    client: httpx.AsyncClient, world: HeldWorld
) -> None:
    """Though both chose before either began, at two nodes or at one; one with another body is refused."""
    key, other = {"Idempotency-Key": "k"}, HeldWorld(node="other")
    other.store.kept = other.records.kept = world.store.kept
    other.documents, other.catalogue.entries = world.documents, world.catalogue.entries
    world.records.may_write.clear()
    other.records.may_write.clear()
    async with other.client() as elsewhere:
        callers = (client, client, elsewhere)
        asking = [asyncio.create_task(one.post("/bulk/jobs", json=ALL, headers=key)) for one in callers]
        pause = ALL | {"action": "pause"}
        asking.append(asyncio.create_task(elsewhere.post("/bulk/jobs", json=pause, headers=key)))
        for _ in range(1_000):
            await asyncio.sleep(0)
        for records in (world.records, other.records):
            records.may_write.set()
        *answers, refused = await asyncio.gather(*asking)
        begun = {one.json()["data"]["operation"]["operationId"] for one in answers}
        assert len(begun) == 1
        assert (refused.status_code, pointers(refused)) == (422, [("/Idempotency-Key", "key_reused")])
        whole = await ended(client, begun.pop())
        assert (whole["state"], whole["succeeded"]) == ("done", MANY)
    assert len(world.history.runs) + len(other.history.runs) == MANY


async def test_the_warnings_of_a_choice_stay_with_it(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """That the history was behind is said by the answer, by every read, and after a repetition."""
    for number in range(3):
        assert (await client.post(f"/jobs/j{number}/trigger")).is_success
    world.is_history_stuck = True
    key, body = {"Idempotency-Key": "k"}, {"action": "cancel", "select": {"filter": {}}}
    world.go.clear()
    asking = asyncio.create_task(client.post("/bulk/executions", json=body, headers=key))
    await until(lambda: world.waiting > 0)
    after = world.restart(boot="second")
    world.go.set()
    said = (await asking).json()
    operation_id = said["data"]["operation"]["operationId"]
    assert [one["code"] for one in said["warnings"]] == ["history_behind"]
    assert (await ended(client, operation_id))["warnings"] == said["warnings"]
    async with after.client() as back:
        assert (await read(back, operation_id))["warnings"] == said["warnings"]
        again = (await back.post("/bulk/executions", json=body, headers=key)).json()
        assert again["warnings"] == again["data"]["operation"]["warnings"] == said["warnings"]


@pytest.mark.parametrize("select", [{"filter": {}}, {"jobIds": ["j0", "j1"]}], ids=["filter", "ids"])
async def test_what_an_earlier_version_did_not_keep_is_not_chosen_again(
    client: httpx.AsyncClient, world: HeldWorld, select: dict[str, Any]
) -> None:
    """409 for a filter, for it may find others now; what the request names goes on."""
    key, body = {"Idempotency-Key": "k"}, {"action": "trigger", "select": select}
    begun = (await client.post("/bulk/jobs", json=body, headers=key)).json()["data"]["operation"]
    operation_id = begun["operationId"]
    await ended(client, operation_id)
    after = world.restart(boot="second")
    place = ("operations/default", operation_id)
    record = json.loads(after.store.kept[place].answer)
    of_today = ("choice", "parts", "isRepeatable", "isGivenUp", "keptAt", "warnings")
    older = {name: value for name, value in record.items() if name not in of_today} | {"state": "running"}
    after.store.kept[place] = replace(after.store.kept[place], answer=json.dumps(older).encode())
    async with after.client() as back:
        assert (await read(back, operation_id))["state"] == "interrupted"
        again = await back.post("/bulk/jobs", json=body, headers=key)
        if "filter" not in select:
            assert (await ended(back, operation_id))["succeeded"] == 2
            return
        assert (again.status_code, pointers(again)) == (409, [("/Idempotency-Key", "conflict")])
        assert "an earlier version" in again.json()["detail"]
        assert (await read(back, operation_id))["state"] == "interrupted"


async def test_a_defect_in_a_piece_is_named(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """By the report and the log; the others are done; where all meet one it is interrupted."""
    operation_id = await world.hold(client)
    world.defects = 1
    world.go.set()
    operation = await ended(client, operation_id)
    assert (operation["state"], operation["done"], operation["failed"]) == ("done", MANY, 1)
    (problem,) = operation["problems"]
    assert (problem["problem"]["status"], problem["problem"]["errors"][0]["code"]) == (500, "internal")
    assert world.logged == [("operation_failed", {"operationId": operation_id, "error": "KeyError"})]
    operation_id = await world.hold(client)
    world.defects = MANY
    world.go.set()
    operation = await ended(client, operation_id)
    assert operation["state"] == "interrupted"
    assert MOST_FAULTS <= operation["failed"] < MOST_FAULTS + AT_ONCE


async def test_who_begins_one_hears_of_any_error_of_the_store(world: HeldWorld) -> None:
    """Nothing was begun, and the next one may begin."""
    operations, operation = world.deps.upkeep.operations, operation_of("o")
    world.records.defect = ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"):
        await operations.start(operation, ["a"], nothing)
    world.records.defect = None
    assert await operations.start(operation, ["a"], nothing) is operation


async def test_who_begins_one_as_the_process_ends_hears_of_it(world: HeldWorld) -> None:
    """Its record was not written in the time that is left: nothing was begun."""
    world.records.may_write.clear()
    beginning = asyncio.create_task(world.deps.upkeep.operations.start(operation_of("o"), ["a"], nothing))
    await asyncio.sleep(0)
    await world.deps.upkeep.operations.stop(20)
    with pytest.raises(NoRoom, match="this process ends"):
        await beginning


async def test_a_defect_of_its_record_is_logged(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """It ends with what was kept before; another start shows it as interrupted."""
    operation_id = await world.hold(client)
    world.records.defect = ValueError("a defect")
    await until(lambda: bool(world.logged))
    assert world.logged == [("operation_failed", {"operationId": operation_id, "error": "ValueError"})]
    async with world.restart(boot="second").client() as back:
        assert (await read(back, operation_id))["state"] == "interrupted"


async def nothing(piece: str) -> Outcome:
    """Is done at once."""
    return Outcome()


def operation_of(operation_id: str) -> Operation:
    """One on a job."""
    members = {"kind": "jobs", "action": "pause", "created_by": "", "started_at": "", "updated_at": ""}
    return Operation(operation_id=operation_id, total=1, **members)


async def test_they_are_forgotten(client: httpx.AsyncClient, world: HeldWorld) -> None:
    """After 24 hours; then 404 says what to do."""
    body = {"action": "trigger", "select": {"jobIds": ["j0"]}}
    first = (await client.post("/bulk/jobs", json=body)).json()["data"]["operation"]["operationId"]
    assert (await read(client, first))["state"] == "done"
    world.wall += DAY + 1
    gone = await client.get(f"/operations/{first}")
    assert (gone.status_code, pointers(gone)) == (404, [("/operationId", "absent")])
    assert "send its request again" in gone.json()["detail"]
