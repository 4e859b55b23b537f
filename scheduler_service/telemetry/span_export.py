"""Sends spans to a collector from a thread of its own; whoever hands them over never waits."""

import asyncio
import gzip
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from scheduler_service.domain.tracing import Sampling
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Sample
from scheduler_service.telemetry.spans import Span, spans_of

if TYPE_CHECKING:
    import httpx

DRAIN_SECONDS = 3.0
LONGEST_PAUSE = 30.0
REASONS = ("queue_full", "refused", "stopped")
"""Why no collector gets a span."""
AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which a collector may take the same spans later."""


class Collector(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans go: an address, and how to reach it. `timeout` in seconds."""

    endpoint: str
    headers: dict[str, str] = {}
    timeout: float = 10.0
    gzipped: bool = False
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None


class ExportRefusal(msgspec.Struct, frozen=True):
    """Why a collector has not taken a batch; `is_final`: it never will."""

    reason: str
    is_final: bool = False


WriteSpans = Callable[[Sequence[Span]], bytes]
"""Writes spans as the body of a request."""


class SpanExport:
    """A bounded queue of spans, and the thread that empties it.

    Spans wait for `delay` seconds at most, and for no more than `batch_size` of them. What a collector does
    not take is sent again, later and later, while the queue has room for `queue_size`; then new spans are
    dropped and counted. What is being sent is in the queue until it was taken. `make_writer` is called in the
    thread, since what it imports takes long.
    """

    def __init__(
        self,
        *,
        collector: Collector,
        make_writer: Callable[[], WriteSpans],
        log: Log,
        queue_size: int,
        batch_size: int,
        delay: float,
    ) -> None:
        self._collector = collector
        self._make_writer = make_writer
        self._log = log
        self._queue_size = queue_size
        self._batch_size = batch_size
        self._delay = delay
        self._waiting: deque[Span] = deque()
        self._sending = 0  # the first of these: they are in the request that is being made
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._dropped = Tally("spans_dropped", log=log)
        self._by_reason: Counter[str] = Counter()
        self._fails = False
        self.exported = 0
        """How many spans a collector has taken."""

    @property
    def dropped(self) -> int:
        """How many spans no collector will get."""
        return self._by_reason.total()

    def samples(self) -> Iterator[Sample]:
        """How many spans were taken, how many were dropped and why, and how many wait."""
        yield Sample(metric_list.SPANS_EXPORTED.name, (), self.exported)
        for reason in REASONS:
            yield Sample(metric_list.SPANS_DROPPED.name, (reason,), self._by_reason[reason])
        yield Sample(metric_list.SPANS_WAITING.name, (), len(self._waiting))

    def put(self, spans: Iterable[Span]) -> None:
        """Takes spans, on the event loop's thread; the first ones start the thread."""
        waiting = self._waiting
        with self._lock:
            waiting.extend(spans)
            excess = len(waiting) - self._queue_size
            for _ in range(excess):
                waiting.pop()
        if excess > 0:
            self._drop(excess, "queue_full")
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="span-export", daemon=True)
            self._thread.start()
        elif len(waiting) - self._sending >= self._batch_size and not self._fails:
            self._wake.set()

    def close(self) -> None:
        """Sends what waits, for at most three seconds; the rest is dropped, and counted in a line.

        A request that is under way then counts as dropped, though a collector may yet take it.
        """
        if self._thread is not None:
            self._stop_at = time.monotonic() + DRAIN_SECONDS
            self._wake.set()
            self._thread.join(DRAIN_SECONDS)
            if self._waiting:
                self._drop(len(self._waiting), "stopped")
        self._dropped.flush()

    def _run(self) -> None:
        write = self._make_writer()
        with _open(self._collector) as client:
            pause = self._delay
            while self._stop_at is None:
                self._wake.wait(pause)
                self._wake.clear()
                pause = self._delay if self._send_all(client, write) else min(pause * 2, LONGEST_PAUSE)
            self._send_all(client, write)

    def _send_all(self, client: "httpx.Client", write: WriteSpans) -> bool:
        """Sends what waits, a batch at a time; False: the collector does not take it now."""
        waiting = self._waiting
        while waiting:
            with self._lock:
                batch = list(islice(waiting, self._batch_size))
                self._sending = len(batch)
            refusal: ExportRefusal | None
            try:
                body = write(batch)
            except Exception as error:  # noqa: BLE001 - one bad text must not end the thread, and all traces
                refusal = ExportRefusal(f"{type(error).__name__}: {error}", is_final=True)
            else:
                refusal = self._post(client, body)
            if refusal is not None:
                self._tell(fails=True, error=refusal.reason)
            is_over = refusal is None or refusal.is_final
            with self._lock:  # only now: until then they count as waiting
                self._sending = 0
                for _ in batch if is_over else ():
                    waiting.popleft()
            if not is_over:
                return False
            if refusal is None:
                self.exported += len(batch)
                self._tell(fails=False)
            else:
                self._call(partial(self._drop, len(batch), "refused"))
        return True

    def _drop(self, count: int, reason: str) -> None:
        self._by_reason[reason] += count
        self._dropped.count("spans", count, reason=reason)

    def _post(self, client: "httpx.Client", body: bytes) -> ExportRefusal | None:
        import httpx  # takes long, and is loaded only where traces are exported

        left = self._collector.timeout
        if self._stop_at is not None:
            left = min(left, max(self._stop_at - time.monotonic(), 0.01))
        try:
            answer = client.post(
                self._collector.endpoint,
                content=gzip.compress(body) if self._collector.gzipped else body,
                timeout=left,
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return ExportRefusal(f"{type(error).__name__}: {error}")
        if answer.is_success:
            return None
        return ExportRefusal(f"the collector answered {answer.status_code}", answer.status_code not in AGAIN)

    def _tell(self, *, fails: bool, error: str = "") -> None:
        """One line when the collector stops taking spans, one when it takes them again."""
        if fails == self._fails:
            return
        self._fails = fails
        if fails:
            self._call(lambda: self._log("traces_not_exported", error=error))
        else:
            self._call(lambda: self._log("traces_exported_again", dropped=self.dropped))

    def _call(self, work: Callable[[], None]) -> None:
        """Calls `work` on the loop's thread; after its end nobody reads the log any more."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:
            return


def _open(collector: Collector) -> "httpx.Client":
    """A client that reads nothing of the environment."""
    import httpx

    headers = {"Content-Type": "application/x-protobuf", **collector.headers}
    if collector.gzipped:
        headers["Content-Encoding"] = "gzip"
    return httpx.Client(headers=headers, verify=_context(collector), trust_env=False)


def _context(collector: Collector) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=collector.certificate)
    if collector.client_certificate is not None:
        context.load_cert_chain(collector.client_certificate, collector.client_key)
    return context


class TraceExport:
    """Hands the spans of every turn to `export`, those that `sampling` keeps."""

    def __init__(self, *, sampling: Sampling, export: SpanExport) -> None:
        self._sampling = sampling
        self._export = export
        self.close = export.close
        self.samples = export.samples

    def observe(self, batch: Batch) -> None:
        """Takes the records of a turn (`telemetry.turn_observers.RecordObserver`)."""
        keeps = self._sampling.keeps
        spans = [span for span in spans_of(batch) if keeps(span.trace, span.caller)]
        if spans:
            self._export.put(spans)
