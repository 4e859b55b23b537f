"""The shard of a job, and several as one: notifications, whose id does not name their shard, and arrays."""

import asyncio
import contextlib
import json
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.app.store_opening import shard_of
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.embedded.embedded_host import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host import Dismiss, HostStatus, dismiss_anywhere
from scheduler_service.hosts.host_dependencies import Core
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.remote_shard import WorkerService
from scheduler_service.hosts.processes.rpc_methods import RpcConnection
from scheduler_service.hosts.processes.shards import Shards, build_processes, make_shard_of
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.settings import Settings
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World, definition, pointers
from tests.unit.hosts.house import MemoryHistory
from tests.unit.hosts.scripted_sender import ScriptedSender

pytestmark = pytest.mark.anyio
SKEW = 1_000
Serve = Callable[[str, bytes], Awaitable[bytes]]
Answers = list[tuple[int, Any]]


class FleetShard:
    """What one process has. `serve` answers the service, `asked` names the methods that it was asked."""

    def __init__(self, store: SqliteStateStore) -> None:
        self.store = store
        self.compiler = DefinitionCompiler(settings=Settings(), surroundings=Surroundings())
        self.asked: list[str] = []
        clock = self.clock = ManualClock(wall=START, skew=SKEW)
        self.history = MemoryHistory(store, [])
        parts = EmbeddedParts(
            core=Core(self.compiler.stored),
            store=store,
            history=self.history,
            sender=ScriptedSender([]),
            router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock),
            clock=clock,
            redact=Masking().redact_all,
            log=lambda event, /, **keys: None,
            holder=Holder("node", "1"),
            boot=store.boot,
        )
        self.host = build_embedded_host(parts)
        self._calls = WorkerService(
            status=HostStatus,
            host=self.host,
            store=store,
            compile_text=self.compiler.stored,
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call."""
        self.asked.append(method)
        return await self._calls.serve(method, argument)

    async def jobs(self, *job_ids: str) -> dict[str, tuple[object, ...]]:
        """The jobs as they are kept, but for what chance made of them."""
        found = await self.store.catalogue.some(job_ids)
        return {
            job_id: (
                entry.job_name, entry.creator, entry.state, entry.revision, entry.labels, entry.next_fire,
                entry.kind, await self.store.definition(entry.uid, entry.revision),
            )
            for job_id, entry in found.items()
        }  # fmt: skip


class Fleet:
    """A service of several processes; the first one has the API (`world`)."""

    def __init__(self, shards: list[FleetShard], **settings: Any) -> None:
        self.shards = shards
        self.shard_of = shard_of(len(shards))
        self._connections: list[RpcConnection] = []
        own = shards[0]
        processes = build_processes(
            count=len(shards),
            store=own.store,
            shard_of=self.shard_of,
            compiler=own.compiler.stored,
        )
        self.workers = processes.workers
        jobs = processes.jobs(own.host)
        self.world = World(
            jobs=jobs,
            compile_definition=own.compiler.posted,
            compile_stored=own.compiler.stored,
            compile_cache=own.compiler.compile_cache,
            **settings,
        )

    async def join(self, number: int, serve: Serve | None = None) -> RpcConnection:
        """The process of a shard is there from now on; returns its own end of the connection."""
        ends = []
        for answer, socket_ in zip(
            (_refuse, serve or self.shards[number].serve), socket.socketpair(), strict=True
        ):
            socket_.setblocking(False)
            connection = await RpcConnection.open(
                socket_,
                serve=answer,
                on_notice=lambda method, argument: None,
                on_lost=lambda: None,
                log=lambda event, /, **keys: None,
            )
            ends.append(connection)
        self._connections += ends
        self.workers[number - 1].connect(ends[0])
        return ends[1]

    async def post(self, *items: object, status: int = 200, **options: Any) -> list[dict[str, Any]]:
        """What became of each definition of an array."""
        async with self.world.client() as client:
            answer = await client.post("/jobs", json=list(items), **options)
        assert answer.status_code == status, answer.text
        return answer.json()["data"]["items"]

    async def jobs(self, *job_ids: str) -> dict[str, tuple[object, ...]]:
        """The jobs as all processes keep them."""
        return await self.shards[0].jobs(*job_ids)

    async def owner(self, job_id: str) -> str:
        """The service that the job belongs to; empty: to none."""
        job = await self.shards[self.shard_of(job_id)].host.read(job_id)
        assert job is not None
        assert job.document is not None
        return job.document.head.owner

    async def close(self) -> None:
        """Cuts all connections."""
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)
        for shard in self.shards:
            await shard.host.stop(0)


async def _refuse(method: str, argument: bytes) -> bytes:
    raise AssertionError(f"{method}: no worker process calls the service here")


@contextlib.asynccontextmanager
async def fleet(processes: int, **settings: Any) -> AsyncIterator[Fleet]:
    """A service of so many processes, all of them there."""
    with tempfile.TemporaryDirectory() as folder:
        shards = [FleetShard(await _open(Path(folder), number, processes)) for number in range(processes)]
        opened = Fleet(shards, **settings)
        try:
            for number in range(1, processes):
                await opened.join(number)
            yield opened
        finally:
            await opened.close()


async def _open(folder: Path, number: int, processes: int) -> SqliteStateStore:
    of_all = shard_of(processes)
    return await SqliteStateStore.open(
        folder=folder,
        durability="process",
        lock=FolderLock.claim_worker(folder, number) if number else None,
        owns=lambda job_id: of_all(job_id) == number,
    )


async def send(client: httpx.AsyncClient, body: bytes, query: Mapping[str, str]) -> tuple[int, Any]:
    """Status and body of the answer to one array."""
    headers = {"content-type": "application/json"}
    answer = await client.post("/jobs", content=body, params=query, headers=headers)
    return answer.status_code, answer.json()


class Told:
    """A shard that says whether it has a notification, once it is `let_go`."""

    def __init__(self, say: Callable[[], bool], *, hangs: bool = False) -> None:
        self._say = say
        self._hangs = hangs
        self.flushes = 0
        self.missing: list[str] = []

    async def resend(self, delivery_id: str) -> bool:
        if self._hangs:
            await asyncio.Event().wait()
        return self._say()

    async def dismiss_here(self, delivery_id: str) -> bool:
        return self._say()

    async def flush(self, job_id: str | None = None) -> None:
        self.flushes += 1


def failing(error: Exception) -> Told:
    """One that cannot say."""

    def fail() -> bool:
        raise error

    return Told(fail)


async def resend(*told: Told) -> bool:
    return await join(told).resend("d")


def join(told: Any, dismiss_lost: Dismiss | None = None) -> Shards:
    """Several as one."""

    async def lose(name: str) -> bool:
        return False

    return Shards(shards=told, shard_of=lambda _: 0, dismiss_lost=dismiss_lost or lose)


YES, NO = Told(lambda: True), Told(lambda: False)


async def test_who_knows_is_not_kept_waiting_by_who_hangs() -> None:
    """One shard that does not answer must not stop what another one has answered."""
    assert await asyncio.wait_for(resend(Told(lambda: True, hangs=True), NO, YES), 5)


async def test_an_error_counts_where_nobody_knows() -> None:
    """It might have been there: the worst of the errors is raised; without any it is unknown."""
    assert await resend(failing(StoreUnavailable("away")), YES)
    assert not await resend(NO, NO)
    with pytest.raises(StoreUncertain):
        await resend(NO, failing(StoreUnavailable("away")), failing(StoreUncertain("perhaps")))


async def test_what_is_lost_is_given_up_when_no_process_has_it() -> None:
    """The history of each is written before; not while one cannot say, or has not read what it has."""
    lost: list[str] = []

    async def dismiss(name: str) -> bool:
        assert all(one.flushes for one in told)
        lost.append(name)
        return True

    told = [Told(lambda: False), Told(lambda: bool(lost)), Told(lambda: False)]
    shards = join(told, dismiss)
    told[1].missing = ["worker 1"]
    with pytest.raises(StoreUnavailable, match="not ready: worker 1"):
        await shards.dismiss("d")
    with pytest.raises(StoreUnavailable, match="away"):
        await join((*told, failing(StoreUnavailable("away"))), dismiss).dismiss("d")
    assert lost == []
    told[1].missing = []
    assert await shards.dismiss("d")
    assert await join((NO, YES), dismiss).dismiss("e")
    assert lost == ["d"]


async def test_a_history_that_hangs_holds_no_request() -> None:
    """What it does later is not known, and the caller may ask again."""
    hanging = Told(lambda: True, hangs=True).resend
    with pytest.raises(StoreUncertain, match=r"the history did not answer within 0 s"):
        await dismiss_anywhere("d", here=NO.dismiss_here, lost=hanging, seconds=0)


PROCESSES = 3
IDS = [f"j{number}" for number in range(12)]
KNOWN = [f"known-{number}" for number in range(9)]
UPDATE = {"onExisting": "update"}
BODY = [{"url": "http://target.test/run", "body": {"n": 1}}]
TOLD = [{"url": "http://target.test/told", "stateEquals": ["finalFailed"]}]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def service() -> AsyncIterator[Fleet]:
    """A service of three processes that know the plain definition, each from a job of its own."""
    async with fleet(PROCESSES) as opened:
        await opened.post(*map(named, KNOWN))
        for shard in opened.shards:
            shard.asked.clear()
        yield opened


def named(job_id: str, **members: Any) -> dict[str, Any]:
    return {"jobId": job_id, **definition(**members)}


def told(items: list[dict[str, Any]]) -> list[str]:
    """What became of each."""
    return [item["status"] for item in items]


def codes(items: list[dict[str, Any]]) -> dict[str, str]:
    """Why those that were refused were, by job."""
    return {item["jobId"]: item["problem"]["errors"][0]["code"] for item in items if item["problem"]}


def test_the_jobs_lie_in_all_shards() -> None:
    """Otherwise the tests here would show little."""
    for ids in (IDS, KNOWN):
        assert set(map(shard_of(PROCESSES), ids)) == set(range(PROCESSES))


async def test_the_owner_goes_with_the_array_to_every_process(service: Fleet) -> None:
    """An array of a service takes the way of every other, known definitions or new ones (SPEC section 9)."""
    headers = {"X-Service": "billing"}
    mine = {"request": [{"url": "service:/run"}]}
    for ids in (IDS[:6], IDS[6:]):
        items = [named(job_id, **mine) for job_id in ids]
        assert told(await service.post(*items, headers=headers)) == ["created"] * 6
        for shard in service.shards[1:]:
            assert shard.asked == [rpc_methods.CREATE.name]
            shard.asked.clear()
    assert {await service.owner(job_id) for job_id in IDS} == {"billing"}


@pytest.mark.parametrize("wrong", [b'{"jobName": nul}', b'"\xff"', b"1e999", b"[" * 64 + b"]" * 64])
async def test_what_is_no_json_creates_nothing_anywhere(service: Fleet, wrong: bytes) -> None:
    """The whole body is read before any process is asked (SPEC section 10)."""
    known = b", ".join(json.dumps(named(job_id)).encode() for job_id in IDS)
    async with service.world.client() as client:
        status, _ = await send(client, b"[%s, %s]" % (known, wrong), {})
    assert status in (400, 422)
    assert await service.jobs(*IDS) == {}
    assert [shard.asked for shard in service.shards] == [[]] * PROCESSES


async def test_a_process_that_is_away_fails_its_own_jobs_alone(service: Fleet) -> None:
    """503 for them, 422 for what is wrong all the same; under a key they are tried again
    (SPEC section 10)."""
    away = [job_id for job_id in IDS if service.shard_of(job_id) == 1]
    service.workers[0].disconnect()
    items = [named(job_id, **({"qos": 7} if job_id == away[0] else {})) for job_id in IDS]
    headers = {"Idempotency-Key": "k"}
    first = codes(await service.post(*items, headers=headers))
    assert first.pop(away[0]) not in ("unavailable", "unknown")
    assert first == dict.fromkeys(away[1:], "unavailable")
    await service.join(1)
    again = await service.post(*items, headers=headers)
    assert list(codes(again)) == [away[0]]
    assert await service.post(*items, headers=headers) == again
    other = await service.world.client().post("/jobs", json=items[:1], headers=headers)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]


async def test_a_process_that_ends_over_an_array_leaves_its_jobs_unknown(service: Fleet) -> None:
    """Whether they were created nobody can say; the others are not held up (SPEC section 10)."""
    asked = asyncio.Event()

    async def hang(method: str, argument: bytes) -> bytes:
        asked.set()
        return await asyncio.get_running_loop().create_future()

    line = await service.join(2, hang)
    posted = asyncio.ensure_future(service.post(*map(named, IDS)))
    await asked.wait()
    line.close()
    lost = [job_id for job_id in IDS if service.shard_of(job_id) == 2]
    assert codes(await posted) == dict.fromkeys(lost, "unknown")
    await service.join(2)
    assert set(told(await service.post(*map(named, lost)))) == {"created"}


async def test_a_fault_in_a_process_leaves_its_jobs_unknown(service: Fleet) -> None:
    """It is not the fault of the array: the others are created, and answered."""

    async def break_down(method: str, argument: bytes) -> bytes:
        raise RuntimeError("a fault of ours")

    await service.join(1, break_down)
    lost = [job_id for job_id in IDS if service.shard_of(job_id) == 1]
    assert codes(await service.post(*map(named, IDS))) == dict.fromkeys(lost, "unknown")
    await service.join(1)
    assert set(told(await service.post(*map(named, IDS)))) == {"created", "unchanged"}


KINDS: list[dict[str, Any]] = [{}, {"notification": TOLD}, {"request": BODY}]
ODD = st.sampled_from([None, 5, [], "j1", {}, {"jobId": 5}, {"jobId": "a b"}, {"jobId": "clean"}])
MEMBERS = st.fixed_dictionaries(
    {"jobId": st.sampled_from([*IDS[:6], ""])},
    optional={
        "jobName": st.sampled_from(["a", "b", ""]),
        "creator": st.sampled_from([None, "two"]),
        "timer": st.sampled_from(
            [
                {"period": "0 30 2 1 1 ?"},
                {"dueTime": "2030-01-01 00:00:00", "period": "0s"},
                {"dueTime": "2020-01-01 00:00:00", "period": "0s"},
                {"dueTime": "5s", "period": "external"},
                {"period": "0 0 0 31 2 ?"},
            ]
        ),
        "labels": st.sampled_from([{"team": "ops"}, {"a:b": "c"}]),
        "request": st.sampled_from(
            [
                BODY,
                [{"url": "http://target.test/run", "body": {"n": "${$.a}"}}],
                [{"url": "http://target.test/run", "body": {"n": "${schedulingNope}"}}],
                [],
            ]
        ),
        "notification": st.just(TOLD),
        "active": st.sampled_from([0, 1]),
        "qos": st.sampled_from([1, 7]),
    },
)
PLAIN = st.builds(lambda members: {**definition(), **members}, MEMBERS)
ARRAYS = st.lists(
    st.tuples(st.lists(PLAIN | ODD, max_size=8), st.sampled_from([{}, UPDATE])),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=8)
@given(arrays=ARRAYS, admin_key=st.sampled_from([None, "secret"]))
def test_several_processes_answer_as_one_does(
    arrays: list[tuple[list[Any], dict[str, str]]], admin_key: str | None
) -> None:
    """Whatever is in the arrays, and keep the same jobs (SPEC sections 10, 15)."""
    alone = asyncio.run(answer_all(1, arrays, admin_key))
    assert asyncio.run(answer_all(PROCESSES, arrays, admin_key)) == alone


async def answer_all(processes: int, arrays: list[tuple[list[Any], dict[str, str]]], key: str | None) -> Any:
    """What a service of so many processes, which know a few definitions, says to arrays and keeps of them."""
    known = [[named(job_id, **members) for job_id in KNOWN] for members in KINDS]
    headers = {"Authorization": f"Bearer {key}"}
    async with fleet(processes, admin_key=key) as service, service.world.client(headers=headers) as client:
        answers = [
            await send(client, json.dumps(items).encode(), query)
            for items, query in [*((items, UPDATE) for items in known), *arrays]
        ]
        return answers, await service.jobs(*IDS)


@pytest.mark.parametrize("form", ["herd-{}", "{}", "customer-{}-daily", "a.b.{}.c"])
@pytest.mark.parametrize("shards", [2, 3, 4, 7, 32])
def test_ids_are_divided_evenly(form: str, shards: int) -> None:
    """Also those that differ in a number alone, as they mostly do."""
    shard_of = make_shard_of(shards)
    counts = Counter(shard_of(form.format(number)) for number in range(10_000))
    assert len(counts) == shards
    assert max(counts.values()) < 1.25 * 10_000 / shards


@given(st.text(), st.integers(1, 32))
def test_every_id_has_one_shard(job_id: str, shards: int) -> None:
    """Among those that there are, whatever the id is made of."""
    assert 0 <= make_shard_of(shards)(job_id) < shards


def test_shards_stay_what_they_are() -> None:
    """Files were divided by them: a change of the rule would lose jobs."""
    shard_of = make_shard_of(4)
    assert [shard_of(f"job-{number}") for number in range(12)] == NUMBERS


def test_pinned_ids_live_in_the_first_shard() -> None:
    """The system jobs, whose functions are in the service's own process."""
    shard_of = make_shard_of(8, ["clean"])
    assert shard_of("clean") == 0
    assert any(shard_of(f"clean{number}") for number in range(8))


NUMBERS = [1, 3, 2, 3, 0, 0, 0, 0, 0, 3, 2, 2]
