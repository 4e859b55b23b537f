"""A small collector of OTLP over HTTP: it parses what comes, as protobuf says, and keeps the spans."""

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_program import Asked, HttpProgram, Said

PATIENCE = 30.0


class SeenSpan(msgspec.Struct, frozen=True):
    """A span as it came, ids in hex."""

    trace: str
    span: str
    parent: str
    name: str
    start: int
    end: int
    failed: bool
    attributes: dict[str, str | int]
    links: tuple[tuple[str, str], ...]
    resource: dict[str, str | int]


class Collector:
    """Keeps spans by their ids; `statuses` are the next answers, 200 where there is none."""

    def __init__(self) -> None:
        self.spans: dict[str, SeenSpan] = {}
        self.came: list[SeenSpan] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self.url = ""
        self._changed = threading.Condition()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """The status of the answer to one request."""
        with self._changed:
            self.headers.append(headers)
            status = self.statuses.pop(0) if self.statuses else 200
            if status == 200:
                raw = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
                for span in read(raw):
                    self.came.append(span)
                    self.spans[span.span] = span
            self._changed.notify_all()
            return status

    def wait_for(self, condition: Callable[["Collector"], bool], what: str) -> None:
        """Returns when `condition` holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), PATIENCE), (
                what,
                list(self.spans.values()),
            )

    def named(self, name: str) -> list[SeenSpan]:
        """The spans of this name, in the order of their begin."""
        return sorted((one for one in self.spans.values() if one.name == name), key=lambda one: one.start)


def read(body: bytes) -> Iterator[SeenSpan]:
    """The spans of one request."""
    request = ExportTraceServiceRequest.FromString(body)
    for found in request.resource_spans:
        resource = _values(found.resource.attributes)
        for scope in found.scope_spans:
            for span in scope.spans:
                yield SeenSpan(
                    trace=span.trace_id.hex(),
                    span=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    name=span.name,
                    start=span.start_time_unix_nano,
                    end=span.end_time_unix_nano,
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                    attributes=_values(span.attributes),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    resource=resource,
                )


def check_tree(spans: Iterable[tuple[str, str, str]], *, outside: str = "") -> None:
    """(trace, span, parent) of all spans: one trace, one root, and every parent exists.

    `outside` is the span of a caller, below which the root is.
    """
    found = list(spans)
    ids = {span for _, span, _ in found}
    assert len({trace for trace, _, _ in found}) == 1, found
    assert [parent for _, _, parent in found if parent not in ids] == [outside], found


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on loopback; `url` is its address without a path."""
    collector = Collector()

    def answer(asked: Asked) -> Said:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        return Said(collector.take({**headers, "path": asked.path}, asked.body))

    with HttpProgram(answer) as program:
        collector.url = program.url
        yield collector


def _values(attributes: Iterable[object]) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for one in attributes:
        value = one.value  # type: ignore[attr-defined]
        found[one.key] = value.int_value if value.HasField("int_value") else value.string_value  # type: ignore[attr-defined]
    return found
