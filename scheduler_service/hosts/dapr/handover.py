"""Executions on their way from one node to another: what is awaited, and which calls still fly elsewhere."""

from collections.abc import Callable

from scheduler_service.domain.document import Document
from scheduler_service.domain.events import Adopted
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.engine.states import LIVE

PATIENCE = 15 * SECOND

Others = Callable[[], frozenset[Holder]]


class Handovers:
    """`others` names the other nodes that live. A node that lives hands over what it runs within seconds."""

    def __init__(self, *, others: Others) -> None:
        self._others = others
        self._since: dict[str, int] = {}
        self._own: dict[str, Holder] = {}
        self._given_up: dict[str, frozenset[Holder]] = {}
        self._flights: dict[str, dict[Holder, tuple[Token, ...]]] = {}
        self._jobs: dict[str, str] = {}

    def away(self, job_id: str) -> tuple[Holder, ...]:
        """The other nodes from which a handover of this job may still come."""
        own = self._own.get(job_id)
        given = self._others() if own is None else self._others() | {own}
        return tuple(given - self._given_up.get(job_id, frozenset()))

    def begin(self, job_id: str, own: Holder) -> None:
        """This node gives the job away, and perhaps gets it back before it has delivered what it knows."""
        self._own[job_id] = own

    def end(self, job_id: str) -> None:
        """What this node knew of the job is delivered."""
        self._own.pop(job_id, None)

    def is_awaited(self, job_id: str, document: Document | None) -> bool:
        """Whether another node that lives still runs something of this job."""
        waits = document is not None and not _holders(document).isdisjoint(self.away(job_id))
        if not waits:
            self._since.pop(job_id, None)
        return waits

    def is_overdue(self, job_id: str, now: int) -> bool:
        """Whether a handover has been awaited for over 15 s (`now`: steady ms)."""
        return now - self._since.setdefault(job_id, now) > PATIENCE

    def give_up(self, job_id: str, document: Document) -> None:
        """Nothing comes any more from those that hold something of this job."""
        self._given_up[job_id] = self._given_up.get(job_id, frozenset()) | _holders(document)
        self._since.pop(job_id, None)

    def take(self, job_id: str, event: Adopted) -> None:
        """A handover has come: the calls in flight go on where they are."""
        self._since.pop(job_id, None)
        self._own.pop(job_id, None)
        if event.document is None:
            return
        given = {holder: tokens for holder, tokens in event.beyond if tokens}
        if event.flight:
            given[event.holder] = event.flight
        others = self._others()
        flights = {holder: tokens for holder, tokens in given.items() if holder in others}
        if flights:
            uid = event.document.head.uid
            self._flights[uid], self._jobs[uid] = flights, job_id

    def land(self, uid: str, holder: Holder, token: Token) -> None:
        """A call that `holder` was said to have in flight was never made there."""
        known = self._flights.get(uid, {})
        if holder in known:
            known[holder] = tuple(one for one in known[holder] if one != token)

    def flights(self, uid: str) -> tuple[tuple[Holder, tuple[Token, ...]], ...]:
        """The calls of this life that other nodes have in flight, by node."""
        return tuple(self._flights.get(uid, {}).items())

    def broken_off(self) -> list[str]:
        """The jobs here whose calls flew on a node that has died."""
        others = self._others()
        return [self._jobs[uid] for uid, flights in self._flights.items() if not flights.keys() <= others]

    def flying(self, uid: str) -> tuple[Token, ...]:
        """The calls of this life that other nodes have in flight; those of the dead are forgotten."""
        known = self._flights.get(uid)
        if known is None:
            return ()
        for holder in known.keys() - self._others():
            del known[holder]
        if not known:
            del self._flights[uid], self._jobs[uid]
        return tuple(token for tokens in known.values() for token in tokens)

    def is_broken(self, holder: Holder, document: Document | None) -> bool:
        """Whether a node that ran something of this job for `holder` or itself has died."""
        if document is None:
            return False
        running = (_holders(document) - {holder}) | self._flights.get(document.head.uid, {}).keys()
        return not running <= self._others()

    def forget(self, job_id: str, uid: str) -> None:
        """The job has left this node."""
        self._since.pop(job_id, None)
        self._given_up.pop(job_id, None)
        self._flights.pop(uid, None)
        self._jobs.pop(uid, None)


def _holders(document: Document) -> frozenset[Holder]:
    return frozenset(
        run.holder for run in document.head.opens if run.state in LIVE and run.holder is not None
    )
