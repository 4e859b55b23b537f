"""What the last attempt of an execution sent and got, for a replay from a later step."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import sqlalchemy as sa

from scheduler_service.domain.records import Exchange, StepEnded
from scheduler_service.persistence.history.stored_records import Place, read_newest_first


def read_last_exchanges(connection: sa.Connection, uid: str, execute_number: int) -> dict[int, Exchange]:
    """By step what the last attempt sent, and before its first what it kept of earlier ones (`retryFrom`).

    Reads no further back than that needs.
    """
    found: dict[int, Exchange] = {}
    for _, sent in groupby(_steps_newest_first(connection, uid, execute_number), key=_attempt_of):
        _add_attempt(found, sent)
        if 0 in found:
            break
    return found


def _add_attempt(found: dict[int, Exchange], sent: Iterable[StepEnded]) -> None:
    """Of an attempt that is earlier than those in `found`, the steps before the first of theirs."""
    first = min(found, default=None)
    for step in sent:
        if first is None or step.index < first:
            found.setdefault(step.index, step.exchange)


def _steps_newest_first(connection: sa.Connection, uid: str, execute_number: int) -> Iterator[StepEnded]:
    """Each step as a whole. A copy of one that came before, written twice after a crash, is passed over."""
    before: Place | None = None
    for stored in read_newest_first(connection, uid, execute_number):
        if not stored.is_a(StepEnded) or (before is not None and stored.place >= before):
            continue
        before = stored.place
        step = stored.decode()
        if isinstance(step, StepEnded) and step.part is None:
            yield step


def _attempt_of(step: StepEnded) -> int:
    return step.request_counts
