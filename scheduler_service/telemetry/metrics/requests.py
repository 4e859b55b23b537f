"""Counts the requests of the API."""

from collections import Counter
from collections.abc import Iterator

from scheduler_service.telemetry.metrics import families
from scheduler_service.telemetry.metrics.samples import Histogram, Sample


class RequestMetrics:
    """The figures of the API; as many rows as it has routes, methods and statuses."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = {}

    def count(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """One more answer. `route` is the template of the path, and `method` one that the route has."""
        self._counts[method, route, status] += 1
        durations = self._durations.get((method, route))
        if durations is None:
            durations = self._durations[method, route] = Histogram(families.API_DURATION)
        durations.observe(seconds)

    def samples(self) -> Iterator[Sample]:
        """All figures so far."""
        for (method, route, status), count in self._counts.items():
            yield Sample(families.API_REQUESTS.name, (method, route, str(status)), count)
        for labels, durations in self._durations.items():
            yield durations.sample(*labels)
