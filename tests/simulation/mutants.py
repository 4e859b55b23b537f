"""Planted bugs: a simulation that does not find them is worth nothing.

Each puts something else in the place of one function of the product while a world is played, and says by
which promise it is found. `python -m tests.simulation 0..100 --mutant NAME` plays worlds with one.

Not among them, as they are not found: turns of one job that overlap. The store refuses the later one of two
that read the same, so nothing comes of it but repetitions. And a version of contexts whose number is used
again after its put has failed, which a late write would tell: while puts fail the row has the contexts itself
(90 worlds with late writes all the time). What such a write may do is a unit test's:
`test_external_contexts.py::test_what_a_frozen_process_writes_late_is_harmless`.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.engine import firing, resuming, retry
from scheduler_service.hosts import notification_sender, turn
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.commit_builder import CommitBuilder
from scheduler_service.hosts.dapr import actor_client, sidecar
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.sidecar import ActorContexts
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.unfinished import Recovery
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.hosts.notification_sender import NotificationSender
from scheduler_service.hosts.processes.worker_processes import WorkerSupervisor
from scheduler_service.hosts.turn import Turn
from scheduler_service.persistence.job_store.state_store import SqlStateStore
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain


class Mutant(NamedTuple):
    """`make` gives, of what stands at `name` of `owner`, what stands there instead.

    `promise` is one that is seen to be broken, of several perhaps.
    """

    promise: str
    owner: Any
    name: str
    make: Callable[[Any], Any]
    placements: tuple[str, ...] = ("alone", "siblings")

    @contextmanager
    def planted(self) -> Iterator[None]:
        """The bug is in the product until this ends."""
        before = getattr(self.owner, self.name)
        setattr(self.owner, self.name, self.make(before))
        try:
            yield
        finally:
            setattr(self.owner, self.name, before)


def _act_before_the_commit(commit: Any) -> Any:
    async def mutated(self: Turn, cached: Any, pending: Any, place: Any) -> None:
        if pending.decision.effects and pending.until is None:
            self._act(cached.job_id, pending.decision.effects, pending.programs)
            pending = msgspec.structs.replace(
                pending, decision=msgspec.structs.replace(pending.decision, effects=())
            )
        await commit(self, cached, pending, place)

    return mutated


def _take_unknown_for_written(settle: Any) -> Any:
    async def mutated(self: Turn, cached: Any, pending: Any, error: StoreError | None) -> None:
        await settle(self, cached, pending, None if isinstance(error, StoreUncertain) else error)

    return mutated


def _answers_in_memory(must_be_durable: Any) -> Any:
    def mutated(self: CommitBuilder, cached: Any, decided: Any) -> bool:
        after = decided.decision.document
        before = cached.document
        is_context = after is not None and before is not None and after.head == before.head
        if is_context and decided.kept is None and not decided.deliveries:
            return False
        return bool(must_be_durable(self, cached, decided))

    return mutated


def _claims_in_memory(must_be_durable: Any) -> Any:
    def mutated(self: CommitBuilder, cached: Any, decided: Any) -> bool:
        programs, after = decided.programs, decided.decision.document
        if after is not None and programs[after.head.revision].qos == 0:
            return decided.text is not None or bool(decided.deliveries)
        return bool(must_be_durable(self, cached, decided))

    return mutated


def _first_turn_anew(init: Any) -> Any:
    def mutated(self: CommitBuilder, **parts: Any) -> None:
        init(self, **(parts | {"boot": 1}))

    return mutated


def _put_in_any_case(put: Any) -> Any:
    async def mutated(self: ActorContexts, *arguments: Any) -> None:
        with suppress(StoreError):
            await put(self, *arguments)

    return mutated


def _wait_for_the_lost(get: Any) -> Any:
    async def mutated(self: ActorContexts, *arguments: Any) -> bytes:
        found = await get(self, *arguments)
        if found is None:
            raise StoreUnavailable("the contexts are not there yet")
        return bytes(found)

    return mutated


def _owns_all(init: Any) -> Any:
    def mutated(self: SqlStateStore, **parts: Any) -> None:
        init(self, **(parts | {"owns": lambda _: True}))

    return mutated


def _never(_: Any) -> Any:
    async def mutated(*_: Any, **__: Any) -> None:
        await asyncio.get_running_loop().create_future()

    return mutated


def _giving(value: object) -> Callable[[Any], Any]:
    """A function that does nothing but return this."""
    return lambda _: lambda *_, **__: value


def _giving_later(value: object) -> Callable[[Any], Any]:
    async def mutated(*_: Any, **__: Any) -> object:
        return value

    return lambda _: mutated


def _other_words(sent_again: Any) -> Any:
    def mutated(state: Any, run: Any, request: Any) -> Any:
        again = sent_again(state, run, request)
        return msgspec.structs.replace(again, headers=(*again.headers, ("X-Sent-Again", "1")))

    return mutated


def _adopt_none(adopt: Any) -> Any:
    def mutated(self: NotificationSender, deliveries: Any) -> None:
        adopt(self, ())

    return mutated


def _give_up(after_try: Any) -> Any:
    def mutated(*arguments: Any, **options: Any) -> Any:
        after = after_try(*arguments, **options)
        if after.state is DeliveryState.OUTBOX:
            return msgspec.structs.replace(after, state=DeliveryState.FAILED)
        return after

    return mutated


def _once(deliver: Any) -> Any:
    async def mutated(self: Redelivery, job_id: str, event: Any) -> None:
        self._lease = -1
        await deliver(self, job_id, event)

    return mutated


def _half(wait: Any) -> Any:
    def mutated(*arguments: Any) -> Any:
        return wait(*arguments) // 2

    return mutated


EVERYWHERE = ("alone", "siblings", "dapr")
MUTANTS: dict[str, Mutant] = {
    "effects start before the commit": Mutant("I4", Turn, "_commit", _act_before_the_commit),
    "an unknown commit counts as written": Mutant("I4", Turn, "settle", _take_unknown_for_written),
    "an unknown claim counts as written": Mutant("I8", Turn, "settle", _take_unknown_for_written, ("dapr",)),
    "a failed commit is not looked at again": Mutant("I10", EmbeddedAlarms, "again", _giving(None)),
    "answers are kept in memory alone": Mutant("I4", CommitBuilder, "must_be_durable", _answers_in_memory),
    "claims of qos 0 are kept in memory alone": Mutant(
        "I9", CommitBuilder, "must_be_durable", _claims_in_memory
    ),
    "turns are numbered anew at each start": Mutant("I7", CommitBuilder, "__init__", _first_turn_anew),
    "records are not handed over at the start": Mutant(
        "I9", Recovery, "_hand_over_batches", _giving_later(None)
    ),
    "calls are not looked for at the start": Mutant("I10", Recovery, "_wake_calls", _giving_later(None)),
    "a call that is sent again has other words": Mutant("I5", resuming, "sent_again", _other_words),
    "deliveries are not adopted at the start": Mutant("I6", NotificationSender, "adopt", _adopt_none),
    "the outbox is given up": Mutant("I6", notification_sender, "after_try", _give_up),
    "an answer is delivered once": Mutant("I2", Redelivery, "deliver", _once),
    "a retry comes too early": Mutant("I3", retry, "wait", _half),
    "keys of triggers are forgotten": Mutant("I8", turn, "remember_reply", _giving(None), EVERYWHERE),
    "firings are sent as soon as they are durable": Mutant(
        "I3", TimedRelease, "wait_until", _giving_later(None)
    ),
    "alarms of what is in memory are not set": Mutant("I10", EmbeddedAlarms, "hold", _giving_later(None)),
    "missed firings are not recorded": Mutant("I1", firing, "record_missed", _giving(None)),
    "a worker process that has died stays away": Mutant(
        "I9", WorkerSupervisor, "_replace", _never, ("siblings",)
    ),
    "each process recovers the jobs of all": Mutant(
        "I4", SqlStateStore, "__init__", _owns_all, ("siblings",)
    ),
    "contexts that were not put count as put": Mutant(
        "I2", ActorContexts, "put", _put_in_any_case, ("dapr",)
    ),
    "all contexts of a job have one key": Mutant("I2", sidecar, "_key", _giving("context-0"), ("dapr",)),
    "contexts that are lost are waited for": Mutant(
        "I9", ActorContexts, "get", _wait_for_the_lost, ("dapr",)
    ),
    "a node takes up what another one still runs": Mutant(
        "I4", Handovers, "is_expected", _giving(False), ("dapr",)
    ),
    "a message that comes twice has no name": Mutant(
        "I8", actor_client, "_name_message", _giving(None), ("dapr",)
    ),
    "nobody looks for what is overdue": Mutant("I1", TurnStore, "overdue", _giving_later([]), ("dapr",)),
}
