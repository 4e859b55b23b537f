"""A world in a box: from one seed, in one process and in given time, all that happens around a scheduler.

`draw` makes a plan of the seed: jobs, what their callers ask for, faults. `play` lives through it and gives
all that was seen: requests at the targets, answers to callers, what became durable and when, the history. The
judge (`judge.py`) knows only that, and the promises.

The horizon is when firings end and trouble with them. After it everything is well, and the world goes on
until nothing is left to be done, or for as long as it may take.
"""

import asyncio
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import Any

import msgspec

from scheduler_service.domain.replies import Reply
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import StoredJob
from tests.simulation.alone import Life
from tests.simulation.callers import Callers, NoAnswer
from tests.simulation.disk import SLOWEST_SECONDS, Disk
from tests.simulation.faults import (
    Freeze,
    Kill,
    KillAt,
    KillingPoints,
    SidecarTrouble,
    SimulatedFault,
    Step,
    Stop,
    StoreTrouble,
    TimedFault,
    Trouble,
    Troubles,
    draw_faults,
    draw_sidecar_troubles,
)
from tests.simulation.jobs import BEGIN, JobPlan, draw_jobs
from tests.simulation.loop import SimulatedProcess, VirtualLoop, outside, run_virtually
from tests.simulation.target import SimulatedTargets

HORIZON = 60_000
PATIENCE = 400_000
"""So long after the horizon (ms) everything is done that is ever done."""
# What was planned while the clock was set ahead is not due any more in this world.
LEFT = f"""
SELECT job_id, live, due_wall, due_steady FROM jobs
WHERE live > 0 OR due_wall BETWEEN 0 AND {BEGIN + HORIZON + PATIENCE} OR due_steady >= 0
UNION ALL SELECT delivery_id, 'is not delivered', 0, 0 FROM outbox WHERE done_at IS NULL
UNION ALL SELECT uid, 'is not in the history', sequence, 0 FROM untold LIMIT 1
"""


class WorldPlan(msgspec.Struct, frozen=True):
    """What is to happen in a world."""

    seed: int
    jobs: tuple[JobPlan, ...]
    faults: tuple[SimulatedFault, ...]
    horizon: int = HORIZON


def draw(seed: int) -> WorldPlan:
    """The plan of a seed."""
    jobs = draw_jobs(Random(f"{seed} jobs"), HORIZON)
    faults = draw_faults(Random(f"{seed} faults"), HORIZON)
    return WorldPlan(seed, jobs, faults + draw_sidecar_troubles(Random(f"{seed} sidecars"), HORIZON))


class World:
    """What its processes have in common, and how these come and go.

    It does not meet faults that are `unmet`. Of the jobs in `forgotten` the store of contexts has lost some.
    """

    unmet: tuple[type[SimulatedFault], ...] = (KillAt, SidecarTrouble)

    def __init__(self, plan: WorldPlan, loop: VirtualLoop) -> None:
        self.plan = plan
        self.loop = loop
        self.disk = self._make_disk()
        self.troubles = Troubles(self.chance("troubles"))
        kills = tuple(one for one in plan.faults if isinstance(one, KillAt))
        self.points = KillingPoints(kills, self._die_at)
        self.callers = Callers(
            deliver=self._deliver,
            now=self.now,
            wall=lambda: BEGIN + self.now() + self.shift,
            note=self.note,
        )
        self.targets = SimulatedTargets(
            loop=loop, chance=self.chance, troubles=self.troubles, report=self.callers.report
        )
        self.trace: list[tuple[int, str]] = []
        self.broken: list[str] = []
        self.shift = 0
        self.steps: list[tuple[int, int]] = []
        self.life: Life
        self.lives: list[Life] = []
        self.forgotten: set[str] = set()
        self.troubled: list[tuple[float, float]] = []
        self.left: dict[str, StoredJob | None] = {}
        self.rest = ""
        self._lives = 0
        self._identities = self.chance("identities")
        self._begun: set[asyncio.Task[Any]] = set()
        loop.set_exception_handler(self._note_broken)

    def chance(self, name: str) -> Random:
        """Chances of their own for what has this name: more of something else changes nothing of them."""
        return Random(f"{self.plan.seed} {name}")

    def now(self) -> int:
        """Milliseconds since the world began."""
        return round(self.loop.time() * 1_000)

    def wall(self) -> float:
        """The wall clock of the machine, in seconds."""
        return (BEGIN + self.shift) / 1_000 + self.loop.time()

    def new_identity(self) -> tuple[str, bytes]:
        """A uid and a key for a new life of a job."""
        return f"{self._identities.getrandbits(64):032x}", self._identities.randbytes(32)

    def note(self, who: str, what: str) -> None:
        """One more line of the trace."""
        self.trace.append((self.loop.tick(), f"{self.loop.time():9.3f} {who:8} {what}"))

    def is_calm(self, begin: float, end: float, job_id: str) -> bool:
        """Whether nothing went wrong in these seconds, and the job's node was up all the time."""
        if any(begin <= until and since <= end for since, until in self.troubled):
            return False
        return any(
            life.up_at is not None and life.up_at <= begin and (life.died_at is None or end < life.died_at)
            for life in self.lives
            if life.owns(job_id)
        )

    def may_lose(self, job_id: str) -> bool:
        """Whether a process may have been taken for dead over executions of the job."""
        return sum(life.owns(job_id) for life in self.lives) > 1

    async def live(self) -> None:
        """All of the plan, to its end."""
        await self._open()
        playing = [self._begin(self.callers.play(job)) for job in self.plan.jobs]
        for fault in self.plan.faults:
            if not isinstance(fault, self.unmet):
                self._begin(self._happen(fault))
        await asyncio.sleep(self.plan.horizon / 1_000)
        self.points.is_over = True
        self.targets.is_calm = True
        if self.shift:
            self._step(-self.shift)
        end = (self.plan.horizon + PATIENCE) / 1_000
        _, waiting = await asyncio.wait(playing, timeout=PATIENCE / 1_000)
        while self.loop.time() < end and not await self._is_over():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(1)
        if waiting:
            self.rest = f"{len(waiting)} callers have no answer"
        await self._end()

    async def _is_over(self) -> bool:
        """Whether nothing is left to do, as the durable state says."""
        life = self.life
        if not life.is_up or life.process.is_frozen or self.targets.is_at_work:
            return False
        return self._has_nothing_left()

    def _has_nothing_left(self) -> bool:
        left = self.disk.database.look(lambda connection: connection.exec_driver_sql(LEFT).first())
        self.rest = "" if left is None else str(left)
        return left is None

    async def _end(self) -> None:
        """The last processes are gone; what they have left is looked at."""
        for life in self.lives:
            life.process.kill()
        for job in self.plan.jobs:
            self.left[job.job_id] = await self.disk.reader.load(job.job_id)

    def forget(self) -> None:
        """Drops what the processes left half done."""
        for life in self.lives:
            life.forget()

    async def stop(self, life: Life, grace: int, down: int) -> None:
        """Stops a process in order; another one is started then."""
        if life.is_up and not life.process.is_frozen:
            await life.stop(grace)
            if not life.process.is_dead:
                self._kill_life(life, down)

    def _make_disk(self) -> Disk:
        return Disk()

    async def _open(self) -> None:
        self._start_node(0)

    def _start_node(self, down: int) -> None:
        self._lives += 1
        life = self.life = Life(self, self._lives)
        self.lives.append(life)
        self.loop.call_later(down / 1_000, lambda: self._serve(life))

    def _serve(self, life: Life) -> None:
        life.is_begun = True
        serving = life.process.start(life.serve())
        serving.add_done_callback(lambda task: self._ended(life, task))

    def _ended(self, life: Life, serving: "asyncio.Task[None]") -> None:
        """A process that does not come up is started again, as its supervisor does."""
        error = None if serving.cancelled() else serving.exception()
        if isinstance(error, StoreError) and not life.process.is_dead:
            self.note(life.process.name, f"does not come up: {error}")
            self._kill_life(life, 1_000)
        elif error is not None:
            self.broken.append(f"{life.process.name}: {error!r}")

    async def _deliver(self, job_id: str, command: Command) -> Reply:
        if not self.life.is_up:
            raise NoAnswer
        return await self.life.deliver(job_id, command)

    async def _happen(self, fault: TimedFault) -> None:
        await asyncio.sleep(fault.at / 1_000)
        self.note("fault", str(fault))
        began = self.loop.time()
        match fault:
            case Kill(down=down):
                if victim := self._victim():
                    self._kill_life(victim, down)
            case Freeze(during=during):
                if victim := self._victim():
                    await self._freeze(victim, during)
            case Stop(grace=grace, down=down):
                if victim := self._victim():
                    await self.stop(victim, grace, down)
            case Step(by=by):
                self._step(by)
            case _:
                self.troubles.begin(fault)
                await self.outlast(fault)
                self.troubles.end(fault)
        self.note("fault", f"over: {type(fault).__name__}")
        is_slow = isinstance(fault, StoreTrouble) and fault.kind == "slow"
        self.troubled.append((began, self.loop.time() + (SLOWEST_SECONDS if is_slow else 0)))

    async def outlast(self, fault: Trouble) -> None:
        """Returns when it is over."""
        await asyncio.sleep(fault.during / 1_000)

    async def _freeze(self, life: Life, during: int) -> None:
        life.process.freeze()
        await asyncio.sleep(during / 1_000)
        life.process.thaw()

    def _step(self, by: int) -> None:
        self.shift += by
        self.steps.append((self.now(), by))

    def _die_at(self, process: SimulatedProcess, fault: KillAt) -> None:
        self.note("fault", f"{fault} in {process.name}")
        for life in self.lives:
            if life.process is process and not process.is_dead:
                outside(partial(self._kill_life, life, fault.down))

    def _victim(self) -> Life | None:
        """Whom a fault hits; None: nobody is there."""
        return self.life if self.life.is_begun and not self.life.process.is_dead else None

    def _kill_life(self, life: Life, down: int) -> None:
        life.died_at = self.loop.time()
        life.process.kill()
        self._start_node(down)

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self.loop.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._note_failed)
        return task

    def _note_failed(self, task: "asyncio.Task[None]") -> None:
        self._begun.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken.append(repr(task.exception()))

    def _note_broken(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.broken.append(f"{context.get('message')}: {context.get('exception')!r}")


def play(plan: WorldPlan, kind: type[World] = World) -> World:
    """The world after all of the plan has happened."""

    async def live(loop: VirtualLoop) -> World:
        world = kind(plan, loop)
        await world.live()
        world.disk.database.drop()
        world.forget()
        return world

    return run_virtually(live)
