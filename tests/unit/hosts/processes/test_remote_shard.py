"""What callers of a shard wait for while its process stands still."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.ports.errors import StoreUncertain
from tests.unit.hosts.processes.fleet import CountingCompiler
from tests.unit.hosts.processes.worker_handles import connected

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def read_none(uid: str, revision: int) -> bytes | None:
    return None


@pytest.mark.parametrize(
    "ask",
    [
        lambda shard: shard.resend("delivery"),
        lambda shard: shard.dismiss("delivery"),
        lambda shard: shard.forget("job"),
    ],
    ids=["resend", "dismiss", "forget"],
)
async def test_what_callers_change_is_not_waited_for(ask: Callable[[RemoteShard], Awaitable[object]]) -> None:
    """Whether it was done is not known: it may be, when the process goes on."""

    async def stand_still(method: str, argument: bytes) -> bytes:
        return await asyncio.get_running_loop().create_future()

    async with connected(stand_still, patience=0.05) as worker, asyncio.timeout(20):
        with pytest.raises(StoreUncertain, match="worker process 1 does not answer"):
            await ask(RemoteShard(worker=worker, compiler=CountingCompiler(), definition=read_none))
