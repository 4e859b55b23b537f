"""First tries of notifications: those of one execution follow each other, as their events did."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from scheduler_service.domain.effects import Delivery
from scheduler_service.hosts.tasks import Tasks


class _Execution(NamedTuple):
    uid: str
    number: int


class FirstTries:
    """The deliveries that wait for their first try, by execution; each execution with any has a task.

    `attempt` tries one by its id; it never raises. Between `hold` and `release` none is tried: what an
    earlier process left is not known yet, and goes first.
    """

    def __init__(self, *, tasks: Tasks, attempt: Callable[[str], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._attempt = attempt
        self._queues: dict[_Execution, deque[str]] = {}
        self._is_held = False

    def add(self, delivery: Delivery) -> None:
        """It is tried after those of its execution before it."""
        execution = _Execution(delivery.uid, delivery.execute_number)
        queue = self._queues.get(execution)
        if queue is not None:
            queue.append(delivery.delivery_id)
            return
        self._queues[execution] = deque((delivery.delivery_id,))
        if not self._is_held:
            self._tasks.start(self._run(execution))

    def hold(self) -> None:
        """What comes now waits; called before anything has come."""
        self._is_held = True

    def release(self, earlier: Iterable[Delivery]) -> None:
        """Tries `earlier`, in their order, and then what has waited; without `hold` they are added."""
        waiting, is_held = self._queues, self._is_held
        if is_held:
            self._queues = {}
        for delivery in earlier:
            self.add(delivery)
        if not is_held:
            return
        for execution, queue in waiting.items():
            self._queues.setdefault(execution, deque()).extend(queue)
        self._is_held = False
        for execution in self._queues:
            self._tasks.start(self._run(execution))

    async def _run(self, execution: _Execution) -> None:
        queue = self._queues[execution]
        try:
            while queue:
                await self._attempt(queue.popleft())
        finally:
            del self._queues[execution]
