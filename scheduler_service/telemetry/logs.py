"""Structured logs: an event word plus keys; never a body, a secret or a header."""

import asyncio
import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.texts import MARK, cut
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_events import UNKNOWN, VOCABULARY, Level
from scheduler_service.telemetry.log_summaries import LINE_SECONDS, Flood, LineKind, kind_of

LONGEST = 200
OF_TARGETS = (FailureType.BUSINESS, FailureType.CHECK, FailureType.PARTIAL)
"""Failures whose message a target or a part of it wrote."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#'\"]*@)?([^\s/?#'\"]*)[^\s'\"]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def host_of(url: str) -> str | None:
    """Host and port of an address, or the name of a service; None: it has none."""
    found = _ADDRESS.match(url)
    return found[2] or None if found is not None else None


def shorten(text: str, limit: int = LONGEST) -> str:
    """The first line of `text`, its addresses reduced to scheme and host."""
    # Cut before, too: a text of any length costs no more than a long line.
    first = text[: 4 * limit].strip().partition("\n")[0]
    if "://" in first:
        first = _ADDRESS.sub(r"\1\2", first)
    return cut(first, limit)


def hide_quoted(text: str) -> str:
    """`text` without what is quoted in it: our messages quote values, and those may be anybody's."""
    return _QUOTED.sub(f"'{MARK}'", text)


def safe_message(failure: AttemptEnded | None) -> str | None:
    """The message of a failed attempt for the log, which has no part of a body: none that a target wrote."""
    if failure is not None and failure.failure_type is FailureType.HTTP:
        return f"the target answered {failure.error}"
    return None if failure is None or failure.failure_type in OF_TARGETS else told_message(failure)


def told_message(failure: AttemptEnded | None) -> str | None:
    """The same for events and alerts, which lead with what the target said (SPEC section 5)."""
    text = None if failure is None else failure.message
    if failure is None or text is None:
        return None
    return shorten(hide_quoted(text) if failure.failure_type is FailureType.TEMPLATE else text)


Form = Literal["json", "text"]
Line = dict[str, Any]
RANKS = {level: rank for rank, level in enumerate(Level)}
FRAMES = 6
"""Of an error's traceback, the innermost."""


class EventLog:
    """Writes one line per event that is at least of `level`; the level of an event is that of its word.

    `form` None: text on a terminal, else JSON. Ten lines of one kind are written in ten seconds; how many
    more there were follows in one line (`lines_omitted`). Any thread may call it.
    """

    def __init__(
        self,
        *,
        stream: TextIO,
        level: str = Level.INFO,
        form: Form | None = None,
        clock: Callable[[], float] = time.monotonic,
        window_seconds: float = LINE_SECONDS,
    ) -> None:
        is_terminal = stream.isatty()
        is_text = form == "text" or (form is None and is_terminal)
        self._render = _text(colors=is_terminal) if is_text else _json
        self._stream = stream
        self._lock = threading.Lock()
        least = RANKS[Level(level)]
        self._silent = frozenset(name for name, word in VOCABULARY.items() if RANKS[word.level] < least)
        self._flood = Flood(clock=clock, seconds=window_seconds)
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, event: str, /, **keys: object) -> None:
        """Writes one line. Never raises: a log that cannot be written must not stop the work."""
        if event in self._silent:
            return
        word = VOCABULARY.get(event, UNKNOWN)
        self._write_sums()
        if word.is_asked_for or self._flood.admits(kind_of(event, word.kind, keys), word.lines):
            if event.endswith("_again"):  # the trouble that ends here: nobody reads of it as one that goes on
                self._log_sums(self._flood.take_untold())
            self._write(word.level, event, keys)
        else:
            self._plan_sums()

    def flush(self) -> None:
        """Writes how many lines were omitted so far."""
        self._write_sums(all_of_them=True)

    def _write(self, level: Level, event: str, keys: dict[str, object]) -> None:
        try:
            stamp = datetime.now(UTC).replace(tzinfo=None).isoformat()
            first = {"timestamp": f"{stamp}Z", "level": level.value, "event": event}
            line = self._render({**first, **keys, **first})
            with self._lock:
                self._stream.write(f"{line}\n")
                self._stream.flush()
        except Exception:  # noqa: BLE001 - whatever it is, the work goes on without this line
            return

    def _write_sums(self, *, all_of_them: bool = False) -> None:
        self._log_sums(self._flood.take_ended(all_of_them=all_of_them))

    def _log_sums(self, counted: Sequence[tuple[LineKind, int]]) -> None:
        for kind, more in counted:
            self._log_sum("lines_omitted", kind, more)

    def _log_sum(self, event: str, kind: LineKind, more: int) -> None:
        level = VOCABULARY.get(kind.word, UNKNOWN).level
        self._write(level, event, {"of": kind.word, "more": more, **dict(kind.names)})

    def _plan_sums(self) -> None:
        """Outside a loop the sums wait for the next line."""
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            self._timer = loop.call_later(self._flood.left(), self._end_window)

    def _end_window(self) -> None:
        self._timer = None
        self._write_sums()
        if self._flood.has_untold:
            self._plan_sums()


def stderr_log(*, level: str = Level.INFO, form: Form | None = None) -> EventLog:
    """The log of a service: standard error."""
    return EventLog(stream=sys.stderr, level=level, form=form)


def _json(line: Line) -> str:
    return json.dumps(line, default=repr)


def _text(*, colors: bool) -> Callable[[Line], str]:
    """Aligned columns, in which no value ends a line or steers a terminal."""
    import structlog  # takes a tenth of a start, and is for people alone

    render = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False)

    def write(line: Line) -> str:
        return str(render(None, "", {_own(name): _printable(value) for name, value in line.items()}))

    return write


def _own(name: str) -> str:
    """The name of a column; the renderer would write some over several lines."""
    return f"{name}_" if name in ("stack", "exception", "exc_info") else name


def _printable(value: object) -> object:
    if not isinstance(value, str) or value.isprintable():
        return value
    return value.encode("unicode_escape").decode("ascii")


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
