"""Structured logs: an event word plus keys; never a body, a secret or a header."""

import logging
import sys
from typing import TextIO

import structlog


class EventLog:
    """Writes one line per event: JSON, or aligned text on a terminal."""

    def __init__(self, *, stream: TextIO, level: str = "info") -> None:
        renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
        if stream.isatty():
            renderer = structlog.dev.ConsoleRenderer(colors=True)
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(stream),
            processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), renderer],
            wrapper_class=structlog.make_filtering_bound_logger(
                logging.getLevelNamesMapping()[level.upper()]
            ),
        )

    def __call__(self, event: str, /, **keys: object) -> None:
        """Writes one line. Never raises: a log that cannot be written must not stop the work."""
        try:
            self._logger.info(event, **keys)
        except (OSError, ValueError):
            return


def stderr_log() -> EventLog:
    """The log of a service: standard error."""
    return EventLog(stream=sys.stderr)
