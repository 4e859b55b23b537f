"""A log that is asked whether it would write a line, by who may have thousands of them at one moment."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from scheduler_service.ports.log import Log


@runtime_checkable
class CountingLog(Log, Protocol):
    """A log that counts lines beyond the first of a kind (`flood`)."""

    def omits(self, event: str, /, **kind: object) -> bool:
        """Whether a line of this kind would not be written now: then it is dealt with, and need not be made.

        `kind`: the keys that tell lines of this event apart (`vocabulary`). A line of a flood is counted by
        this call, one below the level of the log is not. Never raises.
        """


def omits_of(log: Log) -> Callable[..., bool]:
    """`omits` of `log`; of a log without it a function that is False for every line."""
    return log.omits if isinstance(log, CountingLog) else _write_all


def _write_all(event: str, /, **kind: object) -> bool:
    return False
