"""What the API takes from those who work on a queue (SPEC section 13)."""

from scheduler_service.api.queues import RESERVED
from scheduler_service.engine.retry import NEVER_RETRIED


def test_no_worker_can_say_what_is_never_retried() -> None:
    """Codes that policies do not match, or `*` does not, are Punctual's alone (SPEC section 6)."""
    assert NEVER_RETRIED | {"egress"} <= RESERVED
