"""Pauses between tries."""

from itertools import islice

from scheduler_service.domain.tries import doubling_pauses


def test_pauses_double_up_to_the_longest() -> None:
    """Milliseconds stay integers; seconds may be fractions."""
    assert list(islice(doubling_pauses(100, 1_000), 6)) == [100, 200, 400, 800, 1_000, 1_000]
    assert list(islice(doubling_pauses(0.5, 3.0), 5)) == [0.5, 1.0, 2.0, 3.0, 3.0]
    # The pause stays at its ceiling however many tries there are
    assert next(islice(doubling_pauses(0.1, 5.0), 5_000, None)) == 5.0
