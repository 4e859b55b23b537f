"""Gathers the figures of one process: those in memory at once, those of a store within a moment."""

import asyncio
import time
from collections.abc import Callable

from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Ask, Sample, Source

PATIENCE_SECONDS = 1.0
"""How long a scrape waits for the parts that ask somebody."""

KEEP_SECONDS = 5.0
"""So long an answer is not asked for again."""

STANDS_SECONDS = 15.0
"""So long an answer stands while the next one is awaited."""

ASKED_SHARE = 10
"""An answer that took long is asked for so seldom that asking takes less than a tenth of the time."""


class GatheredPart:
    """One question, asked once at a time; its latest answer is kept for a while."""

    def __init__(self, *, ask: Ask, keep_seconds: float, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._keep = keep_seconds
        self._samples: list[Sample] | None = None
        self._answered_at = 0.0
        self._took = 0.0
        self._asking: asyncio.Task[None] | None = None

    def begin(self, now: float) -> "asyncio.Task[None] | None":
        """The question that is being asked, at the latest now; None: the last answer is fresh enough."""
        if self._asking is not None:
            return self._asking
        age = now - self._answered_at
        if self._samples is not None and age < max(self._keep, ASKED_SHARE * self._took):
            return None
        self._asking = asyncio.get_running_loop().create_task(self._run(now))
        return self._asking

    def samples(self, now: float) -> list[Sample] | None:
        """The last answer while it stands; None: there is none."""
        # Longer than it is kept: a gap between two questions would begin every `for:` of a rule anew.
        stands = max(STANDS_SECONDS, 3 * self._keep, 3 * ASKED_SHARE * self._took)
        return None if now - self._answered_at > stands else self._samples

    def cancel(self) -> None:
        """Ends what is being asked."""
        if self._asking is not None:
            self._asking.cancel()

    async def _run(self, began: float) -> None:
        try:
            self._samples = list(await self._ask())
        except Exception:  # noqa: BLE001 - whatever a part meets, the others are shown
            self._samples = None
        finally:
            self._asking = None
            self._answered_at = self._clock()
            self._took = self._answered_at - began


class Gathering:
    """The figures of a process. `sources` are read at each scrape, `parts` are asked; neither can fail it.

    What fails or does not answer within `patience` seconds is absent, and `punctual_scrape_errors` names it.
    `clock` returns seconds.
    """

    def __init__(
        self, *, patience: float = PATIENCE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._clock = clock
        self._sources: dict[str, Source] = {}
        self._parts: dict[str, GatheredPart] = {}

    def read(self, name: str, source: Source) -> None:
        """Reads `source` at each scrape from now on."""
        self._sources[name] = source

    def ask(self, name: str, ask: Ask, *, keep_seconds: float = KEEP_SECONDS) -> None:
        """Asks at scrapes from now on; an answer is kept for `keep_seconds` and shown meanwhile."""
        self._parts[name] = GatheredPart(ask=ask, keep_seconds=keep_seconds, clock=self._clock)

    async def collect(self) -> list[Sample]:
        """All figures, after `patience` seconds at most. Never raises."""
        began = self._clock()
        asked = {task for part in self._parts.values() if (task := part.begin(began)) is not None}
        if asked:
            await asyncio.wait(asked, timeout=self._patience)
        now = self._clock()
        found: list[Sample] = []
        for name, source in self._sources.items():
            _add(found, name, _read(source))
        for name, part in self._parts.items():
            _add(found, name, part.samples(now))
        found.append(Sample(metric_list.SCRAPE_SECONDS.name, (), self._clock() - began))
        return found

    def close(self) -> None:
        """Ends what is being asked."""
        for part in self._parts.values():
            part.cancel()


def _read(source: Source) -> list[Sample] | None:
    try:
        return list(source())
    except Exception:  # noqa: BLE001 - a fault in one figure must not hide the others
        return None


def _add(found: list[Sample], name: str, samples: list[Sample] | None) -> None:
    found.extend(samples or ())
    found.append(Sample(metric_list.SCRAPE_ERRORS.name, (name,), int(samples is None)))
