"""What one node has of a rate limit that holds over all nodes."""

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.services import RateLimit
from scheduler_service.services.shared_window import SharedWindow


def test_a_lowered_limit_counts_at_once() -> None:
    """Also where the node still has more permits than the limit is now."""
    window = SharedWindow(key=("default", "shop"), on_want=lambda: None)
    assert window.wait(RateLimit(4, SECOND), 0) > 0
    window.receive(4, (), 10 * SECOND)
    for _ in range(2):
        assert window.wait(RateLimit(4, SECOND), 0) == 0
        window.take(0)
    assert window.wait(RateLimit(4, SECOND), 1) == 0
    assert window.wait(RateLimit(2, SECOND), 1) == SECOND - 1
