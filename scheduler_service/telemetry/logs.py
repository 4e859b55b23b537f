"""Structured logs: an event word plus keys; never a body, a secret or a header."""

import logging
import sys
from typing import TextIO

import structlog


class EventLog:
    """Writes one line per event: JSON, or aligned text where a person reads along."""

    def __init__(self, *, stream: TextIO, level: str = "info") -> None:
        person = stream.isatty()
        renderer: structlog.typing.Processor = (
            structlog.dev.ConsoleRenderer(colors=True) if person else structlog.processors.JSONRenderer()
        )
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(stream),
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                renderer,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(
                logging.getLevelNamesMapping()[level.upper()]
            ),
        )

    def __call__(self, event: str, /, **keys: object) -> None:
        """One line. Never raises: a log that cannot be written must not stop the work it tells of."""
        try:
            self._logger.info(event, **keys)
        except (OSError, ValueError):
            return


def stderr_log() -> EventLog:
    """The log of a service: standard error."""
    return EventLog(stream=sys.stderr)
