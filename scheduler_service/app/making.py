"""What settings say, made into the values that the parts of a service take."""

from scheduler_service.app.surroundings import Compiler
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.machine import decide
from scheduler_service.engine.snapshot import decode, encode, needs_commit
from scheduler_service.engine.status import due, summarize
from scheduler_service.hosts.core import Core
from scheduler_service.hosts.limits import HostLimits
from scheduler_service.security.masking import Masking
from scheduler_service.settings import Settings


def make_core(compiler: Compiler) -> Core:
    """The core behind every turn."""
    return Core(
        decide=decide,
        encode=encode,
        decode=decode,
        needs_commit=needs_commit,
        due=due,
        summarize=summarize,
        compile=compiler.stored,
    )


def make_masking(settings: Settings) -> Masking:
    """What of records may be written."""
    return Masking(
        headers=settings.history.mask,
        members=settings.history.mask,
        body_bytes=settings.history.body_bytes,
        detail=settings.history.detail,
    )


def limits_of(settings: Settings) -> HostLimits:
    """What settings say to a host."""
    return HostLimits(
        ready=settings.limits.ready,
        retries=settings.notification.retries,
        interval=round(settings.notification.interval_seconds * SECOND),
    )
