"""Traces of a process: the spans of the records of its turns, for a collector."""

from scheduler_service.domain.tracing import Sampling
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.span_export import SpanExport
from scheduler_service.telemetry.spans import spans_of


class Traces:
    """Hands the spans of every turn to `export`, those that `sampling` keeps."""

    def __init__(self, *, sampling: Sampling, export: SpanExport) -> None:
        self._sampling = sampling
        self._export = export
        self.close = export.close
        self.samples = export.samples

    def observe(self, batch: Batch) -> None:
        """Takes the records of a turn (`telemetry.observation.RecordObserver`)."""
        keeps = self._sampling.keeps
        spans = [span for span in spans_of(batch) if keeps(span.trace, span.caller)]
        if spans:
            self._export.put(spans)
