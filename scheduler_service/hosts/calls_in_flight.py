"""What a node has in flight, outside of every turn: calls, searches, watches, counts of misfires."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from scheduler_service.domain.effects import (
    AbandonPart,
    AcceptChanges,
    CallPart,
    CountMissed,
    Effect,
    MarkDraining,
    MarkRefused,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    ResolveInstances,
    WatchInstance,
    WithdrawParts,
)
from scheduler_service.domain.step_parts import PAUSED, WITHDRAWN
from scheduler_service.domain.turn_events import (
    CallEnded,
    Event,
    InstanceLost,
    InstancesResolved,
    MissedCounted,
)
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, OutboundRequest, Outcome, Token
from scheduler_service.hosts.background_tasks import LightTask, LightTasks, Tasks
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.pacing.slices import Slices
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import LARGE_BODY, MayGo, NotSent, Sender, always
from scheduler_service.ports.services import Router
from scheduler_service.telemetry.turn_observers import ObserveCall
from scheduler_service.timing.misfire import count_missed
from scheduler_service.timing.timer import Timer


class SureSender:
    """An error of the sender behind it is a Fault (`ports.sending.Sender`).

    `observe_call` sees every outcome; a request that did not leave, or was abandoned, has none.
    `CallsInFlight._run` calls `begin`, `explain` and `show` itself, which spares a coroutine for each call.
    """

    def __init__(self, *, sender: Sender, log: Log, observe_call: ObserveCall | None) -> None:
        self.begin = sender.send
        self._log = log
        self.show = observe_call
        self.close = sender.close

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The outcome of `request`. Raises only CancelledError and NotSent."""
        try:
            outcome = await self.begin(request, may_go)
        except NotSent:
            raise
        except Exception as error:  # noqa: BLE001 - every call must end, also when the sender is broken
            outcome = self.explain(error)
        if self.show is not None:
            self.show(outcome)
        return outcome

    def explain(self, error: Exception) -> Outcome:
        """The outcome of a request at which the sender failed."""
        self._log("sender_failed", error=repr(error))
        return Fault(FaultKind.CONNECT, f"the request could not be sent: {type(error).__name__}")


class SendGuard(Protocol):
    """Asked for each call before it is sent."""

    def admit(self, job_id: str) -> MayGo:
        """Called within a turn of the job; the result is asked again just before a call is sent."""

    def turn_back(self, job_id: str, token: Token) -> None:
        """The call was not sent, and is not alive any more. Never waits, never raises."""


class OpenSendGuard:
    """For a single node: no other node can have taken the job over."""

    def admit(self, job_id: str) -> MayGo:
        return always

    def turn_back(self, job_id: str, token: Token) -> None:
        return


INFORMS = 1_000
OF_PARTS = (CallKind.PART, CallKind.RESOLVE)
WakeClaimers = Callable[[QueueWrite], None]
"""Called after the commit of a turn that wrote into queues: claims that wait look again."""


def wake_no_claimers(write: QueueWrite) -> None:
    """Where there are no queues."""


class CallsInFlight:
    """Sends requests, searches for instances and calls them; delivers `CallEnded` and `InstancesResolved`.

    Each is alive from its start until its job has taken the outcome; what is alive is not started again. A
    call that the `send_guard` stops is not alive any more. Large answers are counted in `answer_room` until
    their job has taken them.
    """

    def __init__(
        self,
        *,
        sender: SureSender,
        send_guard: SendGuard,
        router: Router,
        redelivery: Redelivery,
        log: Log,
        wake_claimers: WakeClaimers = wake_no_claimers,
        answer_room: Room,
    ) -> None:
        self._sender = sender
        self._send_guard = send_guard
        self._router = router
        self._deliver = redelivery.deliver
        self._log = log
        self._wake_claimers = wake_claimers
        self._answer_room = answer_room
        # By lives of jobs: the task of each token, None once it is answered.
        self._alive: dict[str, dict[Token, LightTask | asyncio.Task[None] | None]] = {}
        self._running = LightTasks()
        self._tasks = Tasks()
        self._informs = LightTasks()

    def __len__(self) -> int:
        """How many are alive."""
        return sum(map(len, self._alive.values()))

    @property
    def parts(self) -> int:
        """How many of them search for instances, or call one that was found."""
        return sum(token.kind in OF_PARTS for token in self.tokens())

    def alive(self, uid: str) -> tuple[Token, ...]:
        """Those of this life of a job that are alive."""
        return tuple(self._alive.get(uid, ()))

    def tokens(self) -> set[Token]:
        """Those that are alive, of all jobs."""
        return {token for running in self._alive.values() for token in running}

    def call(self, job_id: str, token: Token, request: OutboundRequest) -> None:
        """Sends `request`; does nothing when this call is alive already."""
        calls = self._alive.get(token.uid)
        if calls is None:
            calls = self._alive[token.uid] = {}
        elif token in calls:
            return
        may_go = self._send_guard.admit(job_id)
        task = calls[token] = self._running.hold(self._run(job_id, token, request, may_go))
        task.step()

    def start(self, job_id: str, effect: Effect) -> None:
        """Starts an effect that concerns instances or queues. Raises AssertionError for another kind."""
        match effect:
            case ResolveInstances(token=token):
                self._begin(token, lambda: self._search(job_id, effect))
            case CallPart(token=token):
                may_go = self._send_guard.admit(job_id)
                self._begin(
                    token, lambda: self._call(job_id, effect, self._router.take_place(effect), may_go)
                )
            case AbandonPart(token=token):
                self.abandon(token)
            case MarkDraining(tenant=tenant, service=service, instance=instance):
                self._router.mark_draining(tenant, service, instance)
            case MarkRefused(tenant=tenant, service=service, instance=instance):
                self._router.mark_refused(tenant, service, instance)
            case PublishParts() | WithdrawParts() | ReconfigureParts():
                self._wake_claimers(effect)
            case AcceptChanges():
                pass  # written with the turn; nobody waits for it
            case _:
                raise AssertionError(f"no handler for the effect {effect!r}")

    def abandon(self, token: Token) -> None:
        """Stops what is not needed any more; what is answered already ends by itself."""
        work = self._alive.get(token.uid, {}).get(token)
        if work is None:
            return
        self._forget(token)
        if isinstance(work, asyncio.Task):
            self._router.leave(token)  # a task that never ran cannot do so itself
        work.cancel()

    def inform(self, request: OutboundRequest) -> None:
        """Sends `request` once and awaits nothing; beyond 1,000 at a time it is dropped."""
        if len(self._informs) >= INFORMS:
            self._log("notice_dropped", pending=len(self._informs))
            return
        self._informs.start_soon(self._sender.send(request))

    @property
    def informing(self) -> int:
        """How many requests without an outcome are being sent."""
        return len(self._informs)

    def abort(self) -> None:
        """Cancels all requests where they are, as the death of the process does."""
        self._running.cancel()
        self._informs.cancel()

    async def stop(self) -> None:
        """Ends what is in flight, without an event: a restart finds it in the state."""
        self.abort()
        await self._running.wait_for_all()
        await self._informs.wait_for_all()
        await self._tasks.cancel()
        self._alive.clear()

    async def _run(self, job_id: str, token: Token, request: OutboundRequest, may_go: MayGo) -> None:
        sender = self._sender
        try:
            outcome = await sender.begin(request, may_go)
        except NotSent:
            self._forget(token)
            self._send_guard.turn_back(job_id, token)
            return
        except Exception as error:  # noqa: BLE001 - as in `SureSender.send`, which is a coroutine more
            outcome = sender.explain(error)
        if sender.show is not None:
            sender.show(outcome)
        calls = self._alive.get(token.uid)
        if calls is None or token not in calls:
            return
        calls[token] = None  # answered: from here on it must not be cancelled
        size = len(outcome.body) if isinstance(outcome, Answer) else 0
        if size > LARGE_BODY:
            self._answer_room.hold(size)
        try:
            await self._deliver(job_id, CallEnded(token, outcome))
        except StoreError as error:
            self._log("answer_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            self._forget(token)
            if size > LARGE_BODY:
                self._answer_room.release(size)

    def _begin(self, token: Token, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        alive = self._alive.setdefault(token.uid, {})
        if token in alive:
            return
        alive[token] = self._tasks.start(work())

    async def _search(self, job_id: str, search: ResolveInstances) -> None:
        try:
            found = await self._router.resolve(search)
            await self._deliver_outcome(job_id, search.token, InstancesResolved(search.token, *found))
        finally:
            # The turn has either started the call, which took the place over, or does not need the place.
            self._router.leave(search.token)

    async def _call(self, job_id: str, call: CallPart, has_place: bool, may_go: MayGo) -> None:
        try:
            outcome: Outcome = WITHDRAWN
            may_call = has_place or await self._router.enter(call)
            if may_call:
                outcome = await self._sender.send(call.request, may_go)
            elif may_call is None:
                outcome = PAUSED
        except NotSent:
            self._forget(call.token)
            self._send_guard.turn_back(job_id, call.token)
            return
        finally:
            self._router.leave(call.token)
        size = len(outcome.body) if isinstance(outcome, Answer) else 0
        await self._deliver_outcome(job_id, call.token, CallEnded(call.token, outcome), size)

    async def _deliver_outcome(self, job_id: str, token: Token, event: Event, size: int = 0) -> None:
        alive = self._alive.get(token.uid)
        if alive is None or token not in alive:
            return
        alive[token] = None  # answered: from here on it must not be cancelled
        if size > LARGE_BODY:
            self._answer_room.hold(size)
        try:
            await self._deliver(job_id, event)
        except StoreError as error:
            self._log("answer_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            self._forget(token)
            if size > LARGE_BODY:
                self._answer_room.release(size)

    def _forget(self, token: Token) -> None:
        alive = self._alive.get(token.uid)
        if alive is None:
            return
        alive.pop(token, None)
        if not alive:
            del self._alive[token.uid]


class InstanceWatches:
    """Delivers `InstanceLost` to a job when an instance that it watches is lost.

    A host that drains does not wait for watches: the job begins them anew when it is loaded.
    """

    def __init__(self, *, router: Router, redelivery: Redelivery, log: Log) -> None:
        self._router = router
        self._redelivery = redelivery
        self._log = log
        self._tasks = Tasks()
        self._watching: dict[Token, asyncio.Task[None] | None] = {}

    def start(self, job_id: str, watch: WatchInstance) -> None:
        """Begins a watch; one that runs already goes on, and one that failed begins anew."""
        if watch.token not in self._watching:
            self._watching[watch.token] = self._tasks.start(self._watch(job_id, watch))

    def end_all(self, uid: str) -> None:
        """Ends the watches of one life of a job, which has left this process."""
        for token in [token for token in self._watching if token.uid == uid]:
            self.end(token)

    def end(self, token: Token) -> None:
        """Ends a watch; one whose loss is being delivered ends by itself."""
        task = self._watching.get(token)
        if task is not None:
            del self._watching[token]
            self._router.leave(token)
            task.cancel()

    async def stop(self) -> None:
        """Ends all watches, without an event."""
        await self._tasks.cancel()
        self._watching.clear()

    async def _watch(self, job_id: str, watch: WatchInstance) -> None:
        token = watch.token
        try:
            loss = await self._router.wait_for_loss(watch)
            self._watching[token] = None  # from here on it must not be cancelled
            await self._redelivery.deliver(job_id, InstanceLost(token, loss))
        except StoreError as error:
            self._log("loss_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            # Another task's entry is a watch that began after this one was ended.
            if self._watching.get(token, self) in (None, asyncio.current_task()):
                del self._watching[token]


MOMENTS_PER_STEP = 50


class MisfireCounter:
    """Works off counts one after the other, in slices, and delivers each as `MissedCounted`."""

    def __init__(self, *, redelivery: Redelivery, log: Log) -> None:
        self._redelivery = redelivery
        self._log = log
        self._wanted: set[tuple[str, int]] = set()
        self._tasks = Tasks()
        # Thousands of jobs may have missed an hour: counted beside each other they would fill each round.
        self._turn = asyncio.Lock()

    def ask(self, job_id: str, timer: Timer, effect: CountMissed) -> None:
        """Counts the run of `effect`; a repetition before its end is ignored."""
        if (job_id, effect.first) not in self._wanted:
            self._wanted.add((job_id, effect.first))
            self._tasks.start(self._count(job_id, timer, effect))

    async def stop(self) -> None:
        """Drops what is left: after the next start the state requests it again."""
        await self._tasks.cancel()

    async def _count(self, job_id: str, timer: Timer, effect: CountMissed) -> None:
        try:
            async with self._turn:
                slices, tally = Slices(), None
                while tally is None or not tally.done:
                    await slices.pause()
                    tally = count_missed(timer, effect.first, effect.last, start=tally, most=MOMENTS_PER_STEP)
                await self._redelivery.deliver(job_id, MissedCounted(effect.first, tally.count))
        except StoreError as error:
            self._log("count_not_taken", jobId=job_id, error=str(error))
        finally:
            self._wanted.discard((job_id, effect.first))
