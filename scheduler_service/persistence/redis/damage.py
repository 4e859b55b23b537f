"""Looks for jobs in Redis whose row or head was not written by us."""

from collections.abc import AsyncIterator, Callable

from scheduler_service.persistence.redis.connection import ServerConnection
from scheduler_service.persistence.redis.encoding import PREFIX, read_job
from scheduler_service.ports.errors import StateUnreadable

ROWS_AT_ONCE = 200
HASHES = ("jobs", "heads")
NO_FENCE = ("", "")


async def find_damaged_jobs(
    connection: ServerConnection, *, is_readable: Callable[[bytes], bool]
) -> tuple[list[str], int]:
    """The ids of damaged jobs, in order, and how many jobs were looked at; the service may be running.

    `is_readable` says whether the state of a job is. Raises CommandFailed.
    """
    damaged: set[str] = set()
    seen: set[bytes] = set()
    for name in HASHES:
        async for page in _pages(connection, name):
            found = await connection.run("damage", *NO_FENCE, *page)
            damaged.update(job_id.decode(errors="backslashreplace") for job_id in found)
            if name == "jobs":
                damaged.update(_unreadable(page, is_readable))
            seen.update(page)
    return sorted(damaged), len(seen)


async def _pages(connection: ServerConnection, name: str) -> AsyncIterator[dict[bytes, bytes]]:
    """The fields of one of our hashes with their values, each at least once."""
    cursor = b"0"
    while True:
        cursor, found = await connection.call("HSCAN", PREFIX + name.encode(), cursor, "COUNT", ROWS_AT_ONCE)
        if found:
            yield dict(zip(found[::2], found[1::2], strict=True))
        if cursor == b"0":
            return


def _unreadable(rows: dict[bytes, bytes], is_readable: Callable[[bytes], bool]) -> list[str]:
    damaged = []
    for field, row in rows.items():
        job_id = field.decode(errors="backslashreplace")
        try:
            document = read_job(job_id, row).document
        except StateUnreadable:
            damaged.append(job_id)
        else:
            if document is not None and not (isinstance(document, bytes) and is_readable(document)):
                damaged.append(job_id)
    return damaged
