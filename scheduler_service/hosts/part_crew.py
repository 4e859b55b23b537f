"""The parts of steps in flight: searches for instances and calls to them, outside of every turn."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from scheduler_service.domain.effects import (
    AbandonPart,
    CallPart,
    Effect,
    MarkDraining,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    ResolveInstances,
    WithdrawParts,
)
from scheduler_service.domain.events import CallEnded, Event, InstancesResolved
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.core import Log
from scheduler_service.hosts.gate import Gate
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.sending import send_once
from scheduler_service.ports import MayGo, NotSent, Sender, StoreError
from scheduler_service.ports.instances import Router

Tasks = dict[Token, asyncio.Task[None] | None]
Work = Callable[[], Coroutine[Any, Any, None]]
Stir = Callable[[QueueWrite], None]
"""Hears of what turns have written into queues, after their commit: those who wait for work look again."""


def stir_nobody(write: QueueWrite) -> None:
    """Where there are no queues."""


class PartCrew:
    """Brings searches home as `InstancesResolved` and calls as `CallEnded`.

    One is alive from its start until its job has taken the outcome; one that is alive is not started twice.
    """

    def __init__(
        self, *, sender: Sender, gate: Gate, router: Router, insistence: Insistence, log: Log, stir: Stir
    ) -> None:
        self._sender = sender
        self._gate = gate
        self._stir = stir
        self._router = router
        self._insistence = insistence
        self._log = log
        self._alive: dict[str, Tasks] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many searches and calls are alive."""
        return sum(map(len, self._alive.values()))

    def alive(self, uid: str) -> tuple[Token, ...]:
        """The searches and calls of this life of a job that are alive."""
        return tuple(self._alive.get(uid, ()))

    def start(self, job_id: str, effect: Effect) -> None:
        """Starts what a turn asks of instances; an effect of another kind is a mistake and raises."""
        match effect:
            case ResolveInstances(token=token):
                self._begin(token, lambda: self._search(job_id, effect))
            case CallPart(token=token):
                may_go = self._gate.admit(job_id)
                self._begin(
                    token, lambda: self._call(job_id, effect, self._router.take_place(effect), may_go)
                )
            case AbandonPart(token=token):
                self._abandon(token)
            case MarkDraining(tenant=tenant, service=service, instance=instance):
                self._router.mark_draining(tenant, service, instance)
            case PublishParts() | WithdrawParts() | ReconfigureParts():
                self._stir(effect)
            case _:
                raise AssertionError(f"an effect that nobody starts: {effect!r}")

    async def stop(self) -> None:
        """Ends what is in flight and tells nobody: the state names what a restart has to look after."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._alive.clear()

    def _begin(self, token: Token, work: Work) -> None:
        alive = self._alive.setdefault(token.uid, {})
        if token in alive:
            return
        task = asyncio.create_task(work())
        alive[token] = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _abandon(self, token: Token) -> None:
        """Stops what nobody awaits; what is answered already is left to end by itself."""
        task = self._alive.get(token.uid, {}).get(token)
        if task is not None:
            self._forget(token)
            self._router.leave(token)  # a task that never ran cannot do so itself
            task.cancel()

    async def _search(self, job_id: str, search: ResolveInstances) -> None:
        try:
            chosen, route = await self._router.resolve(search)
            await self._bring_home(job_id, search.token, InstancesResolved(search.token, chosen, route))
        finally:
            # The turn has started the call, which took the place over, or it has no use for it.
            self._router.leave(search.token)

    async def _call(self, job_id: str, call: CallPart, has_place: bool, may_go: MayGo) -> None:
        try:
            if not has_place:
                await self._router.enter(call)
            outcome = await send_once(self._sender, call.request, self._log, may_go)
        except NotSent:
            self._forget(call.token)
            self._gate.turn_back(job_id, call.token)
            return
        finally:
            self._router.leave(call.token)
        await self._bring_home(job_id, call.token, CallEnded(call.token, outcome))

    async def _bring_home(self, job_id: str, token: Token, event: Event) -> None:
        alive = self._alive.get(token.uid)
        if alive is None or token not in alive:
            return
        alive[token] = None  # answered: nothing may cut off its way home
        try:
            await self._insistence.deliver(job_id, event)
        except StoreError as error:
            self._log("answer_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            self._forget(token)

    def _forget(self, token: Token) -> None:
        alive = self._alive.get(token.uid)
        if alive is None:
            return
        alive.pop(token, None)
        if not alive:
            del self._alive[token.uid]
