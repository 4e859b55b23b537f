"""What a store requires of a server: its version, its role, and what it keeps through a crash."""

from collections.abc import Mapping

import msgspec

from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.errors import CommandFailed, Refused, ServerUnfit
from scheduler_service.ports.errors import StoreUnavailable

MIN_VERSION = (7, 0)
NO_EVICTION = "noeviction"


class Server(msgspec.Struct, frozen=True):
    """What a server reports of itself. `syncs` None: it does not say."""

    version: str
    role: str
    is_cluster: bool
    is_loading: bool
    appends: bool
    evicts: str
    syncs: str | None


async def inspect(connection: ServerConnection, *, place: str) -> Server:
    """Reads the server's own report. Raises StoreUnavailable."""
    try:
        info = _read(await connection.call("INFO"))
        return Server(
            version=info.get("redis_version", "0"),
            role=info.get("role", "master"),
            is_cluster=info.get("cluster_enabled") == "1",
            is_loading=info.get("loading") == "1",
            appends=info.get("aof_enabled") == "1",
            evicts=info.get("maxmemory_policy", NO_EVICTION)
            if info.get("maxmemory", "0") != "0"
            else NO_EVICTION,
            syncs=await _read_syncs(connection),
        )
    except CommandFailed as error:
        raise StoreUnavailable(f"The store {place} does not open: {error}.") from error


def check(server: Server, *, place: str, durability: str) -> str | None:
    """A warning about the server, if there is one. Raises ServerUnfit with what to set.

    `durability` "full" requires `appendfsync always`: a commit is on the disk before it is answered;
    "process" for `appendonly yes` alone (SPEC section 8). With `everysec` the server answers before it has
    written while its disk is slow, so that its own end may cost what it answered in the last two seconds.
    """
    fault = _find_fault(server) or _find_loss(server, durability)
    if fault is not None:
        raise ServerUnfit(f"The Redis server of {place} cannot hold the jobs' state: {fault}.")
    if durability == "full" and server.syncs is None:
        return "the server does not say its appendfsync: unless it is always, a power loss may cost commits"
    if server.syncs == "everysec":
        return (
            "the end of the server's process may cost commits of its last two seconds (appendfsync everysec)"
        )
    return None


def _find_fault(server: Server) -> str | None:
    if _number(server.version) < MIN_VERSION:
        return f"it has version {server.version}; 7.0 or later is needed"
    if server.is_loading:
        return "it is still loading its data; start again in a moment"
    if server.is_cluster:
        return "it is a node of a Redis Cluster; name a server that stands alone"
    if server.role != "master":
        return f"it is a {server.role}; name the master"
    if server.evicts.startswith("allkeys"):
        return f"it drops keys when its memory is full (maxmemory-policy {server.evicts}); set noeviction"
    return None


def _find_loss(server: Server, durability: str) -> str | None:
    if not server.appends:
        return "it keeps nothing through a crash (appendonly no); set appendonly yes"
    if durability == "full" and server.syncs not in (None, "always"):
        return (
            f"a power loss may cost commits (appendfsync {server.syncs}); set appendfsync always, "
            'or store.durability = "process"'
        )
    return None


async def _read_syncs(connection: ServerConnection) -> str | None:
    try:
        answer = await connection.call("CONFIG", "GET", "appendfsync")
    except Refused:  # hosted servers often refuse CONFIG
        return None
    return answer[1].decode() if len(answer) == 2 else None


def _read(info: bytes) -> Mapping[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
