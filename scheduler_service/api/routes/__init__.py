"""Every operation of the API by resource, with its handler and the role that it needs (SPEC section 10)."""

from scheduler_service.api.routes.alerts import ALERTS
from scheduler_service.api.routes.bulk import BULK
from scheduler_service.api.routes.counts import COUNTS
from scheduler_service.api.routes.deliveries import DELIVERIES
from scheduler_service.api.routes.events import EVENTS
from scheduler_service.api.routes.executions import EXECUTIONS
from scheduler_service.api.routes.firings import FIRINGS
from scheduler_service.api.routes.health import HEALTH
from scheduler_service.api.routes.jobs import JOBS
from scheduler_service.api.routes.legacy_main import LEGACY_MAIN
from scheduler_service.api.routes.outcomes import OUTCOMES
from scheduler_service.api.routes.previews import PREVIEWS
from scheduler_service.api.routes.queues import QUEUES
from scheduler_service.api.routes.services import SERVICES
from scheduler_service.api.routes.sessions import SESSIONS
from scheduler_service.api.routes.statistics import STATISTICS

_BY_RESOURCE = (
    *JOBS,
    *QUEUES,
    *SERVICES,
    *FIRINGS,
    *PREVIEWS,
    *EXECUTIONS,
    *OUTCOMES,
    *COUNTS,
    *BULK,
    *DELIVERIES,
    *STATISTICS,
    *ALERTS,
    *LEGACY_MAIN,
    *HEALTH,
    *SESSIONS,
    *EVENTS,
)
# Paths are matched in this order.
OPERATIONS = tuple(sorted(_BY_RESOURCE, key=lambda operation: not operation.is_busy))
