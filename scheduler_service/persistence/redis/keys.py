"""The names of keys, and bytes that lie in the order of the values for which they stand.

An index is a sorted set whose members all have the score 0: a value that sorts, then the job's id. So a page
begins exactly behind the last member of the one before it, in each order, whatever was written meanwhile.
"""

from scheduler_service.domain.execution import JobState
from scheduler_service.ports.catalogue import JobSort

PREFIX = b"punctual:"
_MIDDLE = 1 << 63
NUMBER_WIDTH = 8

ORDER_NAMES = {
    JobSort.JOB_ID: "id",
    JobSort.JOB_NAME: "name",
    JobSort.CREATED_AT: "created",
    JobSort.UPDATED_AT: "updated",
    JobSort.NEXT_FIRE_TIME: "next",
}
UNPLANNED = "unplanned"  # the jobs of a shelf that will not fire, by id
OPEN = "open"
UIDS = "uids"
DUE_WALL, DUE_STEADY = "due:wall", "due:steady"


def number(value: int) -> bytes:
    """64 bits that lie in the order of numbers. Raises OverflowError beyond them."""
    return (value + _MIDDLE).to_bytes(NUMBER_WIDTH, "big")


def read_number(data: bytes) -> int:
    """The number at the beginning of a member."""
    return int.from_bytes(data[:NUMBER_WIDTH], "big") - _MIDDLE


def text(value: str) -> bytes:
    """A text that ends where it ends, in the order of its bytes: UTF-8 has no byte 255."""
    return value.encode().replace(b"\0", b"\0\xff") + b"\0"


def order(tenant: str, state: JobState, name: str) -> str:
    """The index of a shelf, the jobs of one tenant in one state, in the order called `name`."""
    return f"order:{tenant}:{state.value}:{name}"


def children(parent_job: str) -> str:
    """The index of the jobs that executions of `parent_job` made, by id."""
    return f"children:{parent_job}"
