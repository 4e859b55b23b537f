"""Looks for damage among the jobs in Redis, for `punctual db check`."""

import asyncio

from scheduler_service.app.data_folder import is_readable
from scheduler_service.persistence.contexts.address import read_address
from scheduler_service.ports.errors import StoreUnavailable

MOST_NAMED = 20


def find_redis_damage(url: str) -> tuple[str, int]:
    """What is wrong and what to do, empty where nothing is, and how many jobs were looked at.

    Changes nothing; the service may be running. Raises StoreUnavailable: the server cannot be asked.
    """
    return asyncio.run(_find(url))


async def _find(url: str) -> tuple[str, int]:
    from scheduler_service.persistence.redis.connection import ServerConnection
    from scheduler_service.persistence.redis.damage import find_damaged_jobs
    from scheduler_service.persistence.redis.errors import CommandFailed

    address = read_address(url)
    connection = ServerConnection(address=address)
    try:
        damaged, count = await find_damaged_jobs(connection, is_readable=is_readable)
    except CommandFailed as error:
        raise StoreUnavailable(f"the jobs in {address} were not looked at: {error}") from error
    finally:
        await connection.close()
    return _explain(damaged), count


def _explain(damaged: list[str]) -> str:
    if not damaged:
        return ""
    named = ", ".join(damaged[:MOST_NAMED])
    more = f" and {len(damaged) - MOST_NAMED} more" if len(damaged) > MOST_NAMED else ""
    return (
        f"jobs with a damaged row or head in Redis: {named}{more}; stop the service, remove each by "
        "HDEL punctual:jobs ID and HDEL punctual:heads ID, and create the job again"
    )
