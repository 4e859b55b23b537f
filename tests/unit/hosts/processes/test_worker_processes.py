"""How long a worker process may take to stop (SPEC section 14.5)."""

import pytest

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.background_tasks import LEAST_PATIENCE_MS
from scheduler_service.hosts.processes.worker_processes import EXIT_TIMEOUT_SECONDS, longest_stop


@pytest.mark.parametrize("grace", [0, 20_000])
def test_a_process_whose_history_hangs_is_not_killed(grace: int) -> None:
    """It gives up by itself five seconds after its drain, and has time left to say so and to close."""
    assert longest_stop(grace) >= (grace + LEAST_PATIENCE_MS) / SECOND + EXIT_TIMEOUT_SECONDS
