"""The limits of a host."""

import msgspec

from scheduler_service.engine.notification_retry import INTERVAL, RETRIES
from scheduler_service.hosts.redelivery import LEASE


class HostLimits(msgspec.Struct, frozen=True):
    """Alarms (`ready`) and jobs (`hot`) in memory, tries of a delivery, the lease of a call; times in ms.

    `early_commit`: how far ahead of its moment a firing's turn may be taken and made durable, so that only
    sending is left at the moment itself. `batch_window`: how long of that firings wait for others.
    `burst_lead`: how far ahead where many firings are due at one moment (docs/decisions/0017).
    """

    ready: int = 100_000
    hot: int = 20_000
    retries: int = RETRIES
    interval: int = INTERVAL
    lease: int = LEASE
    early_commit: int = 0
    batch_window: int = 0
    burst_lead: int = 0


DEFAULT_LIMITS = HostLimits()
