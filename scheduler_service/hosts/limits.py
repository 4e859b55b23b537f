"""What settings say to a host."""

import msgspec

from scheduler_service.engine.notification_retry import INTERVAL, RETRIES
from scheduler_service.hosts.redelivery import LEASE


class HostLimits(msgspec.Struct, frozen=True):
    """What settings say to a host: alarms and jobs in memory, tries of a delivery, a lease; times in ms.

    `headway`: so long before its moment a firing's turn may be taken and made durable, so that at the moment
    itself nothing is left but to send; `stride`: so long of it firings wait for others; `rush`: so long where
    a crowd is due (docs/decisions/0017).
    """

    ready: int = 100_000
    hot: int = 20_000
    retries: int = RETRIES
    interval: int = INTERVAL
    lease: int = LEASE
    headway: int = 0
    stride: int = 0
    rush: int = 0


DEFAULT_LIMITS = HostLimits()
