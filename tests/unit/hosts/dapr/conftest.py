"""The cluster of the conformance tests: Dapr nodes over a stand-in for their sidecars."""

from tests.conformance.hosts.conftest import cluster

__all__ = ["cluster"]
