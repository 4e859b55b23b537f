"""Every route of the API: what takes it, what it may be asked, and what it answers (SPEC section 10)."""

from scheduler_service.api.routes.execution import DELIVERIES, EXECUTIONS
from scheduler_service.api.routes.hot import HOT
from scheduler_service.api.routes.job import JOBS
from scheduler_service.api.routes.queues import QUEUES
from scheduler_service.api.routes.service import FAMILIES, SERVICE
from scheduler_service.api.routes.services import HEARTBEAT, SERVICES
from scheduler_service.api.routes.timer import TIMERS
from scheduler_service.api.routes.trial import TRIALS

# Paths are tried in this order, so the busiest ones come first.
OPERATIONS = (
    *HOT,
    *QUEUES,
    HEARTBEAT,
    *JOBS,
    *TIMERS,
    *TRIALS,
    *EXECUTIONS,
    *DELIVERIES,
    *SERVICES,
    *FAMILIES,
    *SERVICE,
)
