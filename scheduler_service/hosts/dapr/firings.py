"""Which turns commit for certain, as their job is in memory."""

from scheduler_service.domain.events import AlarmRang, Event
from scheduler_service.domain.moments import Now
from scheduler_service.hosts.job_cache import CachedJob


def is_firing(cached: CachedJob, event: Event, now: Now) -> bool:
    """Whether the turn uses up a firing or a trigger that is due, on a job of which nothing runs.

    It moves the schedule's cursor, or begins what waited for its moment: both are durable at both qos.
    """
    wall = cached.due.wall
    is_due = wall is not None and wall <= now.wall
    return is_due and type(event) is AlarmRang and cached.is_ready and not cached.is_live
