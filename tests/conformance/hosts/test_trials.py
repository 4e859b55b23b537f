"""Trials are ended by every node of a cluster, also those of a node that died (SPEC section 10)."""

import asyncio
from collections.abc import Awaitable

import pytest

from scheduler_service.domain.job_key import TRIALS, write_trial_id
from scheduler_service.domain.moments import DAY
from scheduler_service.hosts.cleanup import Trials
from scheduler_service.ports.catalogue import Catalogue
from tests.conformance.hosts.houses import DaprHouse, DaprNode
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio
IDS = [write_trial_id(f"{number:02}") for number in range(10)]


class Jobs:
    """The jobs in the shared database, as a node has them."""

    def __init__(self, cluster: DaprHouse, node: DaprNode) -> None:
        self._cluster = cluster
        self._node = node

    @property
    def catalogue(self) -> Catalogue:
        return self._cluster.catalogue

    def forget(self, job_id: str) -> Awaitable[bool]:
        return self._node.shared.forget(job_id)


def trials_of(cluster: DaprHouse, node: DaprNode) -> Trials:
    """Those that a node ends, a day later."""
    clock = ManualClock(wall=cluster.clock.now().wall + DAY)
    return Trials(store=Jobs(cluster, node), deliver=node.host, clock=clock)


async def with_trials(cluster: DaprHouse) -> None:
    """Trials that a kill left without an execution."""
    for job_id in IDS:
        await cluster.create(job_id, parentJob=TRIALS, timer={"period": "external"})
    assert len(await cluster.catalogue.children(TRIALS, None, after="", limit=50)) == len(IDS)


async def test_nodes_that_look_at_one_moment_end_each_trial_once(cluster: DaprHouse) -> None:
    """No node fails, and nothing is left."""
    await with_trials(cluster)
    two = await cluster.add("two")
    rounds = [trials_of(cluster, node) for node in (cluster.nodes["one"], two)]
    sweeps = [asyncio.ensure_future(one.sweep()) for one in rounds]
    while not all(one.done() for one in sweeps):
        await cluster.settle()
    assert [one.result() for one in sweeps] == [0, 0]
    assert await cluster.catalogue.children(TRIALS, None, after="", limit=50) == []


async def test_trials_of_a_dead_node_are_ended_by_another(cluster: DaprHouse) -> None:
    """Whichever node had them."""
    await with_trials(cluster)
    two = await cluster.add("two")
    await cluster.crash("one")
    await cluster.advance(14_000)
    sweep = asyncio.ensure_future(trials_of(cluster, two).sweep())
    while not sweep.done():
        await cluster.settle()
    assert sweep.result() == 0
    assert await cluster.catalogue.children(TRIALS, None, after="", limit=50) == []
