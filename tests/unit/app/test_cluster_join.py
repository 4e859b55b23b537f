"""A node among the nodes of its cluster (SPEC section 14)."""

from pathlib import Path

import pytest

from scheduler_service.app.cluster_join import node_wire, shared_url
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.errors import StoreRefused
from tests.rows import each_row


@pytest.mark.parametrize("scheme", ["mysql", "mariadb"])
def test_a_server_that_cannot_keep_what_nodes_share_is_refused(scheme: str) -> None:
    """Before anything is made there; the message names the remedy, not the password."""
    with pytest.raises(StoreRefused, match=r"give database\.url a postgresql:// address") as found:
        shared_url(f"{scheme}://me:hidden@127.0.0.1/x", Path("data"))
    assert "hidden" not in str(found.value)


def test_a_node_that_was_not_heard_of_for_ten_seconds_is_offline() -> None:
    """`GET /nodes` (SPEC section 14)."""
    node = Node("one", "3", "http://127.0.0.1:8000", "1", "running", 1_000, 5_000, 2, 1)
    wire = node_wire(node, 14_999, 1_000)
    assert (wire["state"], wire["lastHeartbeat"]) == ("running", "1970-01-01T00:00:06.000Z")
    assert node_wire(node, 15_000, 1_000)["state"] == "offline"


@each_row(("known", "shown"), [("0008", {"cluster": "0008"}), ("", {})])
def test_a_node_shows_which_tables_it_knows(known: str, shown: dict[str, str]) -> None:
    """So that two versions beside each other are told apart; a node before 0.2.0 does not say it."""
    node = Node("one", "3", "http://127.0.0.1:8000", "1", "running", 1_000, 5_000, 2, 1, format=known)
    assert node_wire(node, 14_999, 1_000)["formats"] == shown
