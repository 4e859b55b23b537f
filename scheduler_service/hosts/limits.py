"""What settings say to a host."""

import msgspec

from scheduler_service.engine.delivery import INTERVAL, RETRIES
from scheduler_service.hosts.insist import LEASE


class HostLimits(msgspec.Struct, frozen=True):
    """What settings say to a host: alarms and jobs in memory, tries of a delivery, a lease; times in ms."""

    ready: int = 100_000
    hot: int = 20_000
    retries: int = RETRIES
    interval: int = INTERVAL
    lease: int = LEASE


DEFAULT_LIMITS = HostLimits()
