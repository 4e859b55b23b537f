"""What a peer's program is asked to do, and what it tells; needs nothing but the standard library.

A program creates `count` jobs, starts what runs them, prints `ready`, and runs until it is ended. Job n is
due at `planned(n)` and posts to the target `steps` times in a row, each time with the number that the last
answer gave.
"""

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

GROUPS = 10  # a second's jobs are due in as many groups, so that a second is no herd
NAME = "X-Scheduling-Job-Id"
BODY = b'{"n": 1}'


@dataclass(frozen=True)
class Task:
    """`moment` is in ms since the epoch; `rate` is 0 where all jobs are due at once, else jobs a second."""

    work: str
    count: int
    rate: int
    moment: int
    steps: int
    target: str
    store: str
    client_cores: tuple[int, ...]

    def planned(self, n: int) -> int:
        """When job n is due, in ms since the epoch."""
        return self.moment + (n * GROUPS // self.rate * (1000 // GROUPS) if self.rate else 0)

    def due(self, n: int) -> datetime:
        """The same as a time in UTC."""
        return datetime.fromtimestamp(self.planned(n) / 1000, UTC)

    def groups(self) -> Iterator[range]:
        """The numbers of the jobs, in runs that are due together."""
        if not self.rate:
            yield range(self.count)
            return
        starts = [
            math.ceil(n * self.rate / GROUPS) for n in range(math.ceil(self.count * GROUPS / self.rate))
        ]
        for start, end in zip(starts, [*starts[1:], self.count], strict=True):
            yield range(start, end)


def read_task() -> Task:
    """The task of this program: JSON in its first argument."""
    told = json.loads(sys.argv[1])
    return Task(**{**told, "client_cores": tuple(told["client_cores"])})


def headers(n: int) -> dict[str, str]:
    """By which the target knows the job."""
    return {NAME: name(n), "Content-Type": "application/json"}


def name(n: int) -> str:
    """What job n is called."""
    return f"job-{n}"


def body(number: int) -> bytes:
    """What a step posts."""
    return b'{"n": %d}' % number


def tell(event: str, **values: Any) -> None:
    """One line for whoever started this program."""
    print(json.dumps({"event": event, **values}), flush=True)
