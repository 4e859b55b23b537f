"""What a store requires of a server: its version and what it keeps through a crash."""

from pathlib import Path

import msgspec
import pytest

from scheduler_service.persistence.redis.errors import ServerUnfit
from scheduler_service.persistence.redis.server import Server, check
from scheduler_service.persistence.redis.store import RedisStateStore
from tests.redis_server import RedisServer
from tests.unit.persistence.redis.opening import Ear, open_at
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


FIT = Server(
    "7.0.15", "master", is_cluster=False, is_loading=False, appends=True, evicts="noeviction", syncs="always"
)


@pytest.mark.parametrize(
    ("changes", "durability", "said"),
    [
        ({"version": "6.2.14"}, "process", "7.0 or later"),
        ({"role": "slave"}, "process", "name the master"),
        ({"is_cluster": True}, "process", "Redis Cluster"),
        ({"is_loading": True}, "process", "loading"),
        ({"evicts": "allkeys-lru"}, "process", "set noeviction"),
        ({"appends": False}, "process", "set appendonly yes"),
        ({"appends": False}, "full", "set appendonly yes"),
        ({"syncs": "everysec"}, "full", 'appendfsync always, or store.durability = "process"'),
        ({"syncs": "no"}, "full", "appendfsync no"),
    ],
)
def test_a_server_that_would_lose_jobs_is_refused(
    changes: dict[str, object], durability: str, said: str
) -> None:
    """With what to set; `full` promises what `appendfsync always` alone keeps (SPEC section 8)."""
    with pytest.raises(ServerUnfit, match=said):
        check(msgspec.structs.replace(FIT, **changes), place="redis://h:1/0", durability=durability)


@pytest.mark.parametrize(
    ("syncs", "durability", "said"),
    [
        ("always", "full", None),
        ("always", "process", None),
        ("no", "process", None),
        ("everysec", "process", "two seconds"),
        (None, "process", None),
        (None, "full", "does not say"),
    ],
)
def test_a_server_that_keeps_what_was_asked_is_taken(
    syncs: str | None, durability: str, said: str | None
) -> None:
    """What it may lose all the same, or does not say, is a warning."""
    doubt = check(msgspec.structs.replace(FIT, syncs=syncs), place="redis://h:1/0", durability=durability)
    assert (doubt is None) if said is None else said in str(doubt)


async def test_real_servers_are_asked(tmp_path: Path) -> None:
    """One that keeps nothing, one that may lose a second, one that syncs, and one that evicts."""
    server = RedisServer(tmp_path)
    try:
        server.start("--appendonly", "no")
        with pytest.raises(ServerUnfit, match="appendonly no"):
            await open_at(server)
        server.kill()
        server.start("--appendonly", "yes", "--appendfsync", "everysec")
        with pytest.raises(ServerUnfit, match="appendfsync everysec"):
            await RedisStateStore.open(address=server.address)
        with server.client as client:
            client.config_set("appendfsync", "always")
            store = await RedisStateStore.open(address=server.address)
            await store.commit(commit())
            await store.close()
            client.config_set("maxmemory-policy", "allkeys-lru")
            client.config_set("maxmemory", "100mb")
        with pytest.raises(ServerUnfit, match="allkeys-lru"):
            await RedisStateStore.open(address=server.address)
    finally:
        server.kill()


async def test_a_server_without_config_is_doubted(tmp_path: Path) -> None:
    """Hosted servers often refuse CONFIG: what is unknown is a warning."""
    server = RedisServer(tmp_path).start("--appendonly", "yes", "--rename-command", "CONFIG", "")
    ear = Ear()
    try:
        store = await RedisStateStore.open(address=server.address, hooks=ear.hooks)
        await store.close()
    finally:
        server.kill()
    assert len(ear.doubts) == 1
