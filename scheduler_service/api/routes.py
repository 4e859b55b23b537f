"""Every operation of the API, with its handler and the role that it needs (SPEC section 10)."""

from itertools import chain

from scheduler_service.api import (
    bulk,
    bulk_jobs,
    counts,
    deliveries,
    events,
    executions,
    firings,
    health,
    jobs,
    legacy_main,
    previews,
    queues,
    services,
    sessions,
    statistics,
    trials,
)

_MODULES = (
    jobs,
    bulk_jobs,
    queues,
    services,
    firings,
    previews,
    trials,
    executions,
    counts,
    bulk,
    deliveries,
    statistics,
    health,
    legacy_main,
    sessions,
    events,
)
# Paths are matched in this order, those of busy operations first.
OPERATIONS = tuple(
    sorted(
        chain.from_iterable(module.ROUTES.operations for module in _MODULES),
        key=lambda operation: not operation.is_busy,
    )
)
