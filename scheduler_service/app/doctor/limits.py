"""What the system lets a process of this service have: descriptors."""

import resource

from scheduler_service.app.descriptors import ENOUGH, MOST_USEFUL, divide
from scheduler_service.app.doctor.finding import Finding, Part, Subject
from scheduler_service.settings import SettingsError

LIMITS = Part("limits")
REMEDY = "raise LimitNOFILE of the unit, or ulimit -n"


async def examine_limits(subject: Subject) -> list[Finding]:
    """The service raises its soft limit itself: the hard one counts. Raises nothing."""
    return judge(subject, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def judge(subject: Subject, hard: int) -> list[Finding]:
    """The same for a hard limit of descriptors."""
    limit = MOST_USEFUL if hard == resource.RLIM_INFINITY else min(hard, MOST_USEFUL)
    connections = subject.loaded.settings.limits.connections
    try:
        shares = divide(limit, listeners=2 if subject.is_node else 1, connections=connections)
    except SettingsError as error:
        return [LIMITS.fail("descriptors", str(error), REMEDY)]
    detail = f"{limit}: {shares.api} for callers of each listener, {shares.calls} for calls"
    if limit < ENOUGH:
        return [LIMITS.warn("descriptors", f"{detail}; {ENOUGH} are enough for most", REMEDY)]
    return [LIMITS.well("descriptors", detail)]
