"""How many notifications a list would have, by state (SPEC section 10)."""

from typing import Any

import sqlalchemy as sa

from scheduler_service.domain.execution import DeliveryState
from scheduler_service.persistence.history.examination import MOST_EXAMINED
from scheduler_service.persistence.history.queries import DeliveryQuery, Wire
from scheduler_service.persistence.history.schema import GIVEN_UP, deliveries

_T = deliveries.c


def collect_delivery_counts(connection: sa.Connection, query: DeliveryQuery) -> Wire:
    """`total` and `byState` of the newest notifications that fit.

    Of those that were never given up, and of those that once were, 10,000 each are looked at: so what is in
    the outbox is found, however many were delivered since.
    """
    by_state = {state.value: 0 for state in DeliveryState}
    looked = {False: 0, True: 0}
    for was_given_up, state, fits, number in connection.execute(_select_states(query)):
        looked[bool(was_given_up)] += number
        by_state[state] += number if fits else 0
    is_capped = any(number > MOST_EXAMINED for number in looked.values())
    return {"total": {"value": sum(by_state.values()), "isCapped": is_capped}, "byState": by_state}


def _select_states(query: DeliveryQuery) -> sa.CompoundSelect[Any]:
    """How many there are of each look, state and `fits`."""
    newest = _look(query).order_by(_T.created_at.desc()).limit(MOST_EXAMINED + 1).subquery("newest")
    given_up = _look(query).where(GIVEN_UP).order_by(_T.given_up_at.desc()).limit(MOST_EXAMINED + 1)
    return sa.union_all(
        _count(newest, 0).where(newest.c.given_up_at.is_(None)), _count(given_up.subquery("given_up"), 1)
    )


def _look(query: DeliveryQuery) -> sa.Select[Any]:
    conditions = [] if query.job_id is None else [_T.job_id == query.job_id]
    conditions += [] if query.event is None else [_T.event == query.event]
    conditions += [] if query.state is None else [_T.state == query.state]
    fits = sa.case((sa.and_(sa.true(), *conditions), 1), else_=0).label("fits")
    return sa.select(_T.state, _T.given_up_at, fits).where(_T.tenant == query.tenant)


def _count(seen: sa.Subquery, was_given_up: int) -> sa.Select[Any]:
    columns = (sa.literal(was_given_up), seen.c.state, seen.c.fits)
    return sa.select(*columns, sa.func.count()).group_by(seen.c.state, seen.c.fits)
