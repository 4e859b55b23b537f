"""The log of the service."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable


class Log(Protocol):
    """Writes one structured line: an event word and keys, never a body, secret or header."""

    def __call__(self, event: str, /, **keys: object) -> None:
        """Never raises."""


@runtime_checkable
class CountingLog(Log, Protocol):
    """A log that counts lines where many of a kind come: what may come often asks before it makes one."""

    def omits(self, event: str, /, **kind: object) -> bool:
        """Whether a line of this kind would only be counted now; then it is counted, and need not be written.

        `kind`: the keys that tell lines of this event apart (`telemetry.vocabulary`). Never raises.
        """


def omission_of(log: Log) -> Callable[..., bool]:
    """`omits` of `log`; of one that counts nothing: all of its lines are written."""
    return log.omits if isinstance(log, CountingLog) else _write_all


def _write_all(event: str, /, **kind: object) -> bool:
    return False
