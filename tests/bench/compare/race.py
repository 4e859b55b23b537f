"""One run: a scheduler, its store and the target, each where it belongs, for one kind of work."""

import subprocess

import httpx

from tests.bench.compare.cache import Cache
from tests.bench.compare.heat import Heat, LateError
from tests.bench.compare.legs import Leg
from tests.bench.compare.processes import Cores
from tests.bench.compare.results import Run
from tests.bench.compare.work import Work

STARTUP = 3.0  # s until the slowest program works


class Race:
    """Runs legs one at a time, and learns how long each needs to get ready."""

    def __init__(self, *, cores: Cores, cache: Cache) -> None:
        self._cores = cores
        self._cache = cache
        self._leads: dict[tuple[str, str], float] = {}
        self._hopeless: set[tuple[str, str]] = set()

    def wants(self, leg: Leg, work: Work) -> bool:
        """Whether a leg takes part; not again where it has kept less than half of a rate."""
        return work.kind in leg.kinds and (leg.key, work.kind) not in self._hopeless

    def run(self, leg: Leg, work: Work) -> Run:
        """One run; again with more time, up to twice, where the jobs were not there at their moment."""
        place = (leg.key, work.kind)
        lead = self._leads.get(place, STARTUP + work.count / leg.creates)
        for _ in range(3):
            heat = Heat(leg=leg, work=work, cores=self._cores, cache=self._cache)
            try:
                found = heat.run(lead)
            except LateError:
                lead = 2 * lead
            except (OSError, RuntimeError, httpx.HTTPError, subprocess.SubprocessError) as error:
                return Run(leg.key, work.kind, problem=f"{type(error).__name__}: {error}")
            else:
                self._leads[place] = 1.3 * heat.needed + 1.5
                if work.rate and found.figures and (found.figures.rate or 0) < work.rate / 2:
                    self._hopeless.add(place)
                return found
        return Run(leg.key, work.kind, problem="its jobs were not there at their moment")
