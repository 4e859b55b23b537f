"""Lines of libraries, and warnings of Python, in the form of the service's own log."""

import logging
import traceback
from types import TracebackType

from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_text import shorten

FRAMES = 6
"""Of an error's traceback, the innermost."""


class LibraryLogs(logging.Handler):
    """Hands what libraries log, from warnings on, to `log`.

    What they say below that is not taken at any `log.level`: it has addresses and headers of requests.
    """

    def __init__(self, *, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line; never raises."""
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - the arguments of a line may not fit it
            message = str(record.msg)
        keys = {"logger": record.name, "message": shorten(message), **_describe(record)}
        if record.levelno >= logging.ERROR:
            self._log("library_failed", **keys)
        else:
            self._log("library_warned", **keys)


def take_library_logs(log: Log) -> None:
    """From now on all loggers of this process, and warnings of Python, write to `log` alone."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLogs(log=log)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


def _describe(record: logging.LogRecord) -> dict[str, object]:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {}
    return {
        "error": shorten(f"{type(error).__name__}: {error}"),
        "where": place_of(error.__traceback__),
    }


def place_of(trace: TracebackType | None) -> str:
    """Where an error was raised: the innermost frames, the last one first."""
    frames = traceback.extract_tb(trace)[-FRAMES:]
    return " < ".join(
        f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)
    )
