"""Executions that move from one node to another: expected handovers, and calls in flight from other nodes.

A node that gives a job away claims a turn (`HandedOver`): its row has all that only memory had, names nobody
as the holder of what runs, and has the calls that are still in flight. Whoever loads it goes on.
"""

from collections.abc import Callable, Iterable

from scheduler_service.domain.document import Document
from scheduler_service.domain.execution import LIVE
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Flights, Holder, Token

HANDOVER_TIMEOUT_MS = 15 * SECOND
ASKED_WITHIN_MS = 10 * SECOND
Others = Callable[[], frozenset[Holder]]


class Handovers:
    """`others` names the nodes alive beside `own`: such a node hands over what it runs within seconds.

    Those that are `stopping` take longer, as long as their calls.
    """

    def __init__(self, *, own: Holder, others: Others, stopping: Others) -> None:
        self._own = own
        self._others = others
        self._stopping = stopping
        self._expected: dict[str, tuple[int, int]] = {}  # since when, and when it was last asked for
        self._given_up: dict[str, frozenset[Holder]] = {}
        self._calls: dict[str, dict[Holder, tuple[Token, ...]]] = {}
        self._gone: dict[str, frozenset[Token]] = {}
        self._job_ids: dict[str, str] = {}

    def is_expected(self, job_id: str, document: Document | None) -> bool:
        """Whether another node that is alive still runs something of this job."""
        holders = frozenset[Holder]() if document is None else _holders(document)
        given_up = self._given_up.get(job_id, frozenset())
        if given_up and holders.isdisjoint(given_up):
            del self._given_up[job_id]  # the job has gone on: from now on they may have it anew
        waits = not holders.isdisjoint(self._others() - given_up)
        if not waits:
            self._expected.pop(job_id, None)
        return waits

    def is_overdue(self, job_id: str, document: Document, now: int) -> bool:
        """Whether a handover has been expected for over 15 s (`now`: steady ms).

        Who waits asks each second: of one that was not asked for lately the job has moved on since.
        """
        if not _holders(document).isdisjoint(self._stopping()):
            return False
        since, asked_at = self._expected.get(job_id, (now, now))
        if now - asked_at > ASKED_WITHIN_MS:
            since = now
        self._expected[job_id] = since, now
        return now - since > HANDOVER_TIMEOUT_MS

    def give_up(self, job_id: str, document: Document) -> None:
        """No handover is expected any more from the nodes that run something of this job."""
        self._given_up[job_id] = self._given_up.get(job_id, frozenset()) | _holders(document)
        self._expected.pop(job_id, None)

    def note(self, job_id: str, document: Document, flights: Flights) -> None:
        """The job was loaded: its calls in flight from other nodes go on where they are.

        While a handover is awaited that is each second. Calls of executions that have ended are forgotten.
        """
        uid, others = document.head.uid, self._others()
        calls = {holder: tokens for holder, tokens in flights if tokens and holder in others}
        if calls:
            self._calls[uid], self._job_ids[uid] = calls, job_id
        self._add_gone(uid, (one for one in flights if one[0] not in others and one[0] != self._own))
        gone = self._gone.pop(uid, None)
        if gone is not None:
            live = {run.execute_number for run in document.head.opens if run.state in LIVE}
            self._gone[uid] = frozenset(token for token in gone if token.execute_number in live)

    def drop_call(self, uid: str, holder: Holder, token: Token) -> None:
        """A call that was in flight from `holder` was not sent there."""
        calls = self._calls.get(uid, {})
        if holder in calls:
            calls[holder] = tuple(one for one in calls[holder] if one != token)

    def calls_by_node(self, uid: str) -> Flights:
        """The calls of this life in flight from other nodes, by node."""
        return tuple(self._calls.get(uid, {}).items())

    def calls_elsewhere(self, uid: str) -> tuple[Token, ...]:
        """The calls of this life in flight from other nodes; those of dead nodes are removed."""
        calls = self._calls.get(uid)
        if calls is None:
            return ()
        dead = calls.keys() - self._others()
        self._add_gone(uid, ((holder, calls.pop(holder)) for holder in dead))
        if not calls:
            del self._calls[uid], self._job_ids[uid]
        return tuple(token for tokens in calls.values() for token in tokens)

    def calls_gone(self, uid: str) -> tuple[Token, ...]:
        """The calls of this life that were in flight from nodes that have died since."""
        return tuple(self._gone.get(uid, ()))

    def _add_gone(self, uid: str, flights: Iterable[tuple[Holder, tuple[Token, ...]]]) -> None:
        tokens = frozenset(token for _, some in flights for token in some)
        if tokens:
            self._gone[uid] = self._gone.get(uid, frozenset()) | tokens

    def jobs_with_lost_calls(self) -> list[str]:
        """The jobs here with calls that were in flight from a node that has died."""
        others = self._others()
        return [self._job_ids[uid] for uid, calls in self._calls.items() if not calls.keys() <= others]

    def has_dead_holder(self, holder: Holder, document: Document | None) -> bool:
        """Whether a node other than `holder` that ran something of this job has died."""
        if document is None:
            return False
        running = (_holders(document) - {holder}) | self._calls.get(document.head.uid, {}).keys()
        return not running <= self._others()

    def forget(self, job_id: str) -> None:
        """The job has left this node, loaded or not."""
        self._expected.pop(job_id, None)
        self._given_up.pop(job_id, None)

    def forget_calls(self, uid: str) -> None:
        """A life of a job has left this node."""
        self._calls.pop(uid, None)
        self._gone.pop(uid, None)
        self._job_ids.pop(uid, None)


def _holders(document: Document) -> frozenset[Holder]:
    return frozenset(
        run.holder for run in document.head.opens if run.state in LIVE and run.holder is not None
    )
