"""What goes wrong in a world: kills, halts, steps of the clock, trouble of stores and of targets.

A fault is a value of the plan, so that a run can be repeated without one of them.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from tests.simulation.loop import SimulatedProcess

POINTS = (
    "before commit",
    "after commit",
    "before write",
    "after write",
    "before send",
    "after send",
    "before history",
    "after history",
    "before read",
)
STORE_TROUBLES = ("slow", "refused", "vanished", "silent", "unreadable")
TARGET_TROUBLES = ("refused", "lost", "slow", "failing")
OUTAGES, OF_RARE_THINGS = ("hanging", "refused"), ("twice", "astray", "forgetful")
SIDECAR_TROUBLES = (*OUTAGES, *OUTAGES, *OF_RARE_THINGS, "slow", "lost", "late")


class Kill(msgspec.Struct, frozen=True, tag=True):
    """The node dies at a moment and is started again `down` ms later."""

    at: int
    down: int


class KillAt(msgspec.Struct, frozen=True, tag=True):
    """The node dies when it passes `point` for the `count`th time."""

    point: str
    count: int
    down: int


class Freeze(msgspec.Struct, frozen=True, tag=True):
    """The node stands still."""

    at: int
    during: int


class Stop(msgspec.Struct, frozen=True, tag=True):
    """The node is stopped in order (SIGTERM), with `grace` ms, and started again `down` ms later."""

    at: int
    grace: int
    down: int


class Step(msgspec.Struct, frozen=True, tag=True):
    """The wall clock is set by so many ms."""

    at: int
    by: int


class StoreTrouble(msgspec.Struct, frozen=True, tag=True):
    """The store is slow, refuses writes, does not read, or does not say whether it has written.

    `vanished` writes are not there, `silent` ones are. `odds`: how many of a hundred it meets.
    """

    at: int
    during: int
    kind: str
    odds: int


class HistoryTrouble(msgspec.Struct, frozen=True, tag=True):
    """The history takes nothing."""

    at: int
    during: int


class TargetTrouble(msgspec.Struct, frozen=True, tag=True):
    """The targets refuse connections, lose answers, are slow or fail."""

    at: int
    during: int
    kind: str
    odds: int


class SidecarTrouble(msgspec.Struct, frozen=True, tag=True):
    """daprd is slow, hangs, refuses calls, loses answers; its store writes late, or is `forgetful`.

    Turns and reminders come `twice`, reminders `astray`: at a node that has not the actor, or no more. `node`
    is whose daprd it is; empty: all are.
    """

    at: int
    during: int
    kind: str
    odds: int
    node: str

    @property
    def is_outage(self) -> bool:
        """Whether a daprd is away: for the others as well, so that its actors move."""
        return self.kind in OUTAGES and self.odds == 100 and bool(self.node)


Trouble = StoreTrouble | HistoryTrouble | TargetTrouble | SidecarTrouble
TimedFault = Kill | Freeze | Stop | Step | Trouble
"""Faults with a moment. Moments and durations are in ms of the world."""

SimulatedFault = TimedFault | KillAt


def draw_faults(chance: Random, horizon: int) -> tuple[SimulatedFault, ...]:
    """None to five faults within the first `horizon` ms."""
    count = chance.choice((0, 1, 1, 2, 2, 3, 3, 4, 5))
    return tuple(_draw_one(chance, horizon) for _ in range(count))


def draw_sidecar_troubles(chance: Random, horizon: int) -> tuple[SimulatedFault, ...]:
    """None to three; only a cluster meets them. What meets rare things is there all the time."""
    faults = []
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        kind = chance.choice(SIDECAR_TROUBLES)
        at = 0 if kind in OF_RARE_THINGS else chance.randrange(0, horizon)
        during = horizon if kind in OF_RARE_THINGS else chance.choice((1_000, 5_000, 20_000))
        odds, node = chance.choice((20, 50, 100)), chance.choice(("", "one", "two"))
        faults.append(SidecarTrouble(at, min(during, horizon - at), kind, odds, node))
    return tuple(faults)


def _draw_one(chance: Random, horizon: int) -> SimulatedFault:
    at, odds = chance.randrange(0, horizon), chance.choice((20, 50, 100))
    down = chance.choice((1, 200, 2_000, 15_000, 70_000))
    during = chance.choice((50, 500, 3_000, 12_000))
    kinds: list[Callable[[], SimulatedFault]] = [
        lambda: Kill(at, down),
        lambda: KillAt(chance.choice(POINTS), int(chance.triangular(1, 60, 1)), down),
        lambda: KillAt(chance.choice(POINTS), chance.randrange(1, 20), down),
        lambda: Freeze(at, during),
        lambda: Stop(at, chance.choice((0, 500, 30_000)), down),
        lambda: Step(at, chance.choice((-3_600_000, -30_000, -2_000, 1_500, 20_000, 90_000, 7_200_000))),
        lambda: StoreTrouble(at, during, chance.choice(STORE_TROUBLES), odds),
        lambda: HistoryTrouble(at, during),
        lambda: TargetTrouble(at, during, chance.choice(TARGET_TROUBLES), odds),
    ]
    return chance.choices(kinds, (3, 3, 3, 2, 1, 1, 3, 1, 2))[0]()


class Troubles:
    """Which troubles there are now, and who meets them."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._now: list[Trouble] = []

    def begin(self, fault: Trouble) -> None:
        """From now on."""
        self._now.append(fault)

    def end(self, fault: Trouble) -> None:
        """It is over."""
        self._now.remove(fault)

    def of(self, kind: type[StoreTrouble | TargetTrouble | SidecarTrouble], node: str = "") -> str:
        """The kind of trouble that somebody meets who comes now; empty: none."""
        for fault in self._now:
            if isinstance(fault, SidecarTrouble) and fault.node not in ("", node):
                continue
            if isinstance(fault, kind) and self._chance.randrange(100) < fault.odds:
                return fault.kind
        return ""

    @property
    def is_history_away(self) -> bool:
        """Whether the history takes nothing."""
        return any(isinstance(fault, HistoryTrouble) for fault in self._now)


class Risks(NamedTuple):
    """What a process meets: its chances, the troubles of its world, and the points at which it may die."""

    process: SimulatedProcess
    chance: Random
    troubles: Troubles
    points: "KillingPoints"

    async def pass_by(self, point: str) -> None:
        """One more; where it dies there, nothing follows."""
        await self.points.pass_by(self.process, point)


class KillingPoints:
    """Counts what nodes do to their world; at the chosen points the process that comes there dies."""

    def __init__(self, faults: tuple[KillAt, ...], die: Callable[[SimulatedProcess, KillAt], None]) -> None:
        self._faults = list(faults)
        self._die = die
        self.seen: Counter[str] = Counter()
        self.is_over = False

    async def pass_by(self, process: SimulatedProcess, point: str) -> None:
        """One more; at a chosen one nothing follows."""
        self.seen[point] += 1
        for fault in self._faults:
            if not self.is_over and fault.point == point and fault.count == self.seen[point]:
                self._faults.remove(fault)
                self._die(process, fault)
                await asyncio.get_running_loop().create_future()
