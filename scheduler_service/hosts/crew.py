"""The calls in flight: one errand each, outside of every turn."""

from scheduler_service.domain.events import CallEnded
from scheduler_service.domain.wire import OutboundRequest, Token
from scheduler_service.hosts.core import Log
from scheduler_service.hosts.errands import Errand, Errands
from scheduler_service.hosts.gate import Gate
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.sending import send_once
from scheduler_service.ports import MayGo, NotSent, Sender, StoreError

INFORMS = 1_000

Calls = dict[Token, Errand | None]


class Crew:
    """Sends requests and brings their outcomes home as `CallEnded`.

    A call is alive from its start until its job has taken the outcome; one that is alive is not sent twice.
    One that the `gate` does not let out is alive no more.
    """

    def __init__(self, *, sender: Sender, gate: Gate, insistence: Insistence, log: Log) -> None:
        self._sender = sender
        self._gate = gate
        self._deliver = insistence.deliver
        self._log = log
        self._calls: dict[str, Calls] = {}
        self._running = Errands()
        self._informs = Errands()

    def __len__(self) -> int:
        """How many calls are alive."""
        return sum(map(len, self._calls.values()))

    def alive(self, uid: str) -> tuple[Token, ...]:
        """The calls of this life of a job that are alive."""
        return tuple(self._calls.get(uid, ()))

    def call(self, job_id: str, token: Token, request: OutboundRequest) -> None:
        """Sends `request`; does nothing when this call is alive already."""
        calls = self._calls.get(token.uid)
        if calls is None:
            calls = self._calls[token.uid] = {}
        elif token in calls:
            return
        may_go = self._gate.admit(job_id)
        calls[token] = self._running.start_soon(self._run(job_id, token, request, may_go))

    def abandon(self, token: Token) -> None:
        """Stops a call that nobody awaits any more; one that is answered already is left to end by itself."""
        call = self._calls.get(token.uid, {}).get(token)
        if call is not None:
            self._forget(token)
            call.cancel()

    def inform(self, request: OutboundRequest) -> None:
        """Sends `request` once and awaits nothing; beyond 1,000 at a time it is dropped."""
        if len(self._informs) >= INFORMS:
            self._log("inform_dropped", pending=len(self._informs))
            return
        self._informs.start_soon(send_once(self._sender, request, self._log))

    async def stop(self) -> None:
        """Ends what is in flight and tells nobody: the state names what a restart has to look after."""
        self._running.cancel()
        self._informs.cancel()
        await self._running.wait_for_all()
        await self._informs.wait_for_all()
        self._calls.clear()

    async def _run(self, job_id: str, token: Token, request: OutboundRequest, may_go: MayGo) -> None:
        try:
            outcome = await send_once(self._sender, request, self._log, may_go)
        except NotSent:
            self._forget(token)
            self._gate.turn_back(job_id, token)
            return
        calls = self._calls.get(token.uid)
        if calls is None or token not in calls:
            return
        calls[token] = None  # answered: nothing may cut off its way home
        try:
            await self._deliver(job_id, CallEnded(token, outcome))
        except StoreError as error:
            self._log("answer_not_taken", jobId=job_id, execution=token.execute_number, error=str(error))
        finally:
            self._forget(token)

    def _forget(self, token: Token) -> None:
        calls = self._calls.get(token.uid)
        if calls is None:
            return
        calls.pop(token, None)
        if not calls:
            del self._calls[token.uid]
