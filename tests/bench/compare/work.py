"""The kinds of work, and how large they are."""

from dataclasses import dataclass

HERD, STEADY, CHAIN, SINGLE = "herd", "steady", "chain", "single"


@dataclass(frozen=True)
class Work:
    """`rate` is 0 where all jobs are due at one moment; `seconds` is how long they may take from there."""

    kind: str
    count: int
    rate: int
    steps: int
    seconds: float


def works(herd: int, rate: int, seconds: int) -> tuple[Work, ...]:
    """All kinds: half as many chains as there are jobs in the herd, a fifth of it created one by one."""
    return (
        Work(HERD, count=herd, rate=0, steps=1, seconds=45),
        Work(STEADY, count=rate * seconds, rate=rate, steps=1, seconds=seconds + 10),
        Work(CHAIN, count=max(1, herd // 2), rate=0, steps=3, seconds=45),
        Work(SINGLE, count=max(1, herd // 5), rate=0, steps=1, seconds=0),
    )
