"""Says which other nodes of the cluster come and go: one line of the log each, at every node that sees it."""

from collections.abc import Iterable

from scheduler_service.domain.moments import Now, rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.liveness import OFF, is_alive
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.log import Log

SILENT = "silent"


class Membership:
    """Compares the nodes that are alive with those of the time before; `own` is this node."""

    def __init__(self, *, log: Log, own: Holder) -> None:
        self._log = log
        self._own = own
        self._alive: dict[Holder, Node] | None = None

    def is_due(self, now: Now) -> bool:
        """Whether another node that was alive is offline by now, unless it has written a heartbeat since."""
        others = () if self._alive is None else self._alive.items()
        return any(holder != self._own and not is_alive(node, now.steady) for holder, node in others)

    def look(self, nodes: Iterable[Node], now: Now) -> frozenset[Holder]:
        """Those that are alive. The first look writes nothing: who is there then was there before."""
        listed = {node.holder: node for node in nodes}
        alive = {holder: node for holder, node in listed.items() if is_alive(node, now.steady)}
        before, self._alive = self._alive, alive
        for holder, node in () if before is None else before.items():
            if holder not in alive and holder != self._own:
                self._part(listed.get(holder, node), now)
        for holder, node in alive.items():
            if before is not None and holder not in before and holder != self._own:
                self._log("node_joined", node=node.node_id, address=node.address, version=node.version)
        return frozenset(alive)

    def _part(self, node: Node, now: Now) -> None:
        since = rfc3339(now.wall - (now.steady - node.seen_at))
        if node.state == OFF:
            self._log("node_left", node=node.node_id)
        else:
            reason = SILENT if is_alive(node, node.seen_at) else node.state
            self._log("node_lost", node=node.node_id, since=since, reason=reason)
