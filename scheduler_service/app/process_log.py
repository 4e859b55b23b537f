"""The log of a process: its own lines, and those of its libraries."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from scheduler_service.settings import Settings
from scheduler_service.telemetry.library_logs import take_library_logs
from scheduler_service.telemetry.logs import EventLog, stderr_log


def log_of(settings: Settings, **bound: object) -> EventLog:
    """The log of this process, as the settings have it, for its libraries too, whose lines have `bound`."""
    log = stderr_log(level=settings.log.level, form=settings.log.format)
    take_library_logs(partial(log, **bound))
    return log


@contextmanager
def process_log(settings: Settings) -> Iterator[EventLog]:
    """`log_of`, which has written all that it summed up when the block ends, however it does."""
    log = log_of(settings)
    try:
        yield log
    finally:
        log.flush()
