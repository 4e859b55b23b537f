"""The log of the service."""

from typing import Protocol


class Log(Protocol):
    """Writes one structured line: an event word and keys, never a body, secret or header."""

    def __call__(self, event: str, /, **keys: object) -> None:
        """Never raises."""
