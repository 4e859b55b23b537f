"""Brings the occurrences of a worker process to the service's process.

Those of jobs while somebody takes them there; those of the process itself always: they are rare, and alerts
need them.
"""

import asyncio
from collections.abc import Callable

import msgspec

from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import OccurrenceGroup
from scheduler_service.telemetry.occurrences import Occurrences

GROUP_SECONDS = 0.02
MOST_WAITING = 5_000
"""Occurrences that wait to be sent; what comes beyond them is counted, and told as a gap."""


class OccurrenceRelay:
    """Sends groups, each when the service has answered the one before: a slow service makes no heap here.

    What happens to the process itself has the subject `worker 2`, to its history `worker 2/history`.
    """

    def __init__(self, *, occurrences: Occurrences, connection: RpcConnection, worker: int) -> None:
        self._occurrences = occurrences
        self._connection = connection
        self._subject = f"worker {worker}"
        self._waiting: list[Occurrence] = []
        self._lost = 0
        self._is_sending = False
        self._leave: Callable[[], None] | None = None
        self._settled = asyncio.Event()
        self._settled.set()
        occurrences.listen(self._take_own)

    def listen(self, is_wanted: bool) -> None:
        """Takes the occurrences of jobs from now on, or no more."""
        if is_wanted and self._leave is None:
            self._leave = self._occurrences.subscribe(self._take_of_jobs)
        elif not is_wanted and self._leave is not None:
            self._leave()
            self._leave = None

    async def flush(self) -> None:
        """Returns when the service has all that has happened so far, or is gone."""
        await self._settled.wait()

    def _take_of_jobs(self, occurrence: Occurrence) -> None:
        if occurrence.tenant is not None:
            self._take(occurrence)

    def _take_own(self, occurrence: Occurrence) -> None:
        if occurrence.tenant is None:
            subject = "/".join(filter(None, (self._subject, occurrence.subject)))
            self._take(msgspec.structs.replace(occurrence, subject=subject))

    def _take(self, occurrence: Occurrence) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        self._waiting.append(occurrence)
        if not self._is_sending:
            self._is_sending = True
            self._settled.clear()
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._send)

    def _send(self) -> None:
        group = OccurrenceGroup(self._waiting, self._lost)
        self._waiting, self._lost = [], 0
        packed = rpc_methods.HAPPENED.write_argument(group)
        self._connection.call(rpc_methods.HAPPENED.name, packed).add_done_callback(self._go_on)

    def _go_on(self, answer: "asyncio.Future[bytes]") -> None:
        if not answer.cancelled():
            answer.exception()  # the connection is cut, and this process about to end
        if self._waiting:
            asyncio.get_running_loop().call_later(GROUP_SECONDS, self._send)
        else:
            self._is_sending = False
            self._settled.set()
