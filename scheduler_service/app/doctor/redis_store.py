"""The Redis server of `store.url`: reached, fit to hold the jobs' state, and its clock."""

from scheduler_service import how_to_install
from scheduler_service.app.doctor.clock import judge_difference
from scheduler_service.app.doctor.finding import Finding, Part, Subject
from scheduler_service.persistence.contexts.address import Address, read_address
from scheduler_service.ports.errors import StoreError

REDIS = Part("redis")


async def examine_redis(subject: Subject) -> list[Finding]:
    """Reads what the server says of itself; writes nothing. Raises nothing."""
    store = subject.loaded.settings.store
    if store.url is None:
        return []
    try:
        from scheduler_service.persistence.redis.connection import ServerConnection
    except ModuleNotFoundError as error:
        remedy = how_to_install("service", "redis")
        return [REDIS.fail("package", f"the package {error.name} is missing", remedy)]
    address = read_address(store.url)
    connection = ServerConnection(address=address)
    try:
        return await _look(connection, address, store.durability)
    finally:
        await connection.close()


async def _look(connection: object, address: Address, durability: str) -> list[Finding]:
    from scheduler_service.persistence.redis.connection import ServerConnection
    from scheduler_service.persistence.redis.errors import CommandFailed, ServerUnfit
    from scheduler_service.persistence.redis.server import check, inspect

    assert isinstance(connection, ServerConnection)
    place = str(address)
    try:
        server = await inspect(connection, place=place)
        seconds, micros = await connection.call("TIME")
    except (StoreError, CommandFailed) as error:
        remedy = "see that the server runs, and that store.url names its user, password and database"
        return [REDIS.fail("answer", str(error), remedy)]
    found = [REDIS.well("answer", f"Redis {server.version} at {place}")]
    how = f"appendonly {'yes' if server.appends else 'no'}, appendfsync {server.syncs or 'not said'}"
    try:
        doubt = check(server, place=place, durability=durability)
    except ServerUnfit as error:
        remedy = "set it in redis.conf, or with CONFIG SET and CONFIG REWRITE"
        found.append(REDIS.fail("fit", str(error), remedy))
    else:
        kept = f"{how}, maxmemory-policy {server.evicts}"
        found.append(
            REDIS.well("fit", kept)
            if doubt is None
            else REDIS.warn("fit", doubt, "set appendonly yes and appendfsync always")
        )
    return [*found, judge_difference("Redis", int(seconds) + int(micros) / 1_000_000)]
