"""Signs of life and open calls that the nodes of a cluster tell each other of, as one report of each node."""

from collections.abc import Callable, Sequence

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.services import InstancePlace
from scheduler_service.ports.shared_registry import NodeReport, OpenCalls, Sighting
from scheduler_service.services.instance_rows import place_of
from scheduler_service.services.instances import Instances

REPORT_MS = SECOND
"""So often a node says of which instances it has heard, where it has heard of any."""

OpenHere = Callable[[], Sequence[tuple[InstancePlace, int]]]


class NodeReports:
    """What this node has to say, and what the others said. Moments are steady ms."""

    def __init__(self, *, instances: Instances, node: str) -> None:
        self._instances = instances
        self._node = node
        self._heard: dict[InstancePlace, int] = {}
        self._calls: dict[str, dict[InstancePlace, int]] = {}
        self._reported_at = 0
        self._report = NodeReport(node, 0)

    def next(self, now: int, open_here: OpenHere) -> NodeReport | None:
        """The report that is to be written; None: there is no news, or it is too soon."""
        if now - self._reported_at < REPORT_MS:
            return None
        since = now - self._instances.offline_after
        seen = tuple(
            Sighting(one.tenant, one.service, one.instance_id, one.seen, one.load)
            for one in self._instances.all()
            if one.seen > max(self._heard.get(place_of(one), 0), since)
        )
        calls = tuple(OpenCalls(*place, count) for place, count in open_here())
        if (seen, calls) != (self._report.seen, self._report.calls):
            return NodeReport(self._node, now, seen, calls)
        self._reported_at = now
        return None

    def note_written(self, report: NodeReport) -> None:
        """The others can read it."""
        self._report, self._reported_at = report, report.at

    def hurry(self) -> None:
        """The next report is not too soon."""
        self._reported_at = 0

    def take(self, report: NodeReport, *, is_alive: bool) -> None:
        """What another node said; calls count only from one that is alive."""
        if is_alive:
            self._calls[report.node] = {_called(one): one.count for one in report.calls}
        for one in report.seen:
            place = (one.tenant, one.service, one.instance_id)
            self.note_heard(place, one.seen)
            self._instances.hear(*place, one.seen, one.load)

    def calls_to(self, place: InstancePlace) -> int:
        """By the latest reports of the nodes that are alive."""
        return sum(calls.get(place, 0) for calls in self._calls.values())

    def note_heard(self, place: InstancePlace, seen: int) -> None:
        """All nodes know that it lived at `seen`."""
        if self._instances.get(*place) is not None:
            self._heard[place] = max(self._heard.get(place, 0), seen)

    def forget(self, place: InstancePlace) -> None:
        """It has left."""
        self._heard.pop(place, None)

    def tidy(self) -> None:
        """What was said of instances that are not known any more is forgotten."""
        self._heard = {place: at for place, at in self._heard.items() if self._instances.get(*place)}

    def keep(self, names: frozenset[str]) -> None:
        """Calls of nodes other than these are over."""
        self._calls = {node: calls for node, calls in self._calls.items() if node in names}


def _called(calls: OpenCalls) -> InstancePlace:
    return calls.tenant, calls.service, calls.instance_id
