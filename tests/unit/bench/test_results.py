"""Lines that programs print, medians over runs, and ratios."""

from tests.bench.compare.figures import Figures
from tests.bench.compare.results import Run, parse_event, ratio, summarise
from tests.rows import each_row


def figures(rate: float | None, lost: int = 0) -> Figures:
    """Those of a run at this rate."""
    late = 1_000 / rate if rate else None
    return Figures(10 - lost, lost, doubled=0, early=0, rate=rate, p50=late, p99=late, worst=late)


def test_an_event_is_read() -> None:
    """One JSON object with the name of the event."""
    line = '{"event": "ready", "created": 10, "seconds": 0.5}\n'
    assert parse_event(line) == {"event": "ready", "created": 10, "seconds": 0.5}


@each_row("line", ["", "celery@host v5", "{", "[1]", "7", '{"created": 10}', '{"event": 3}'])
def test_what_else_a_program_prints_is_no_event(line: str) -> None:
    """Banners and warnings go by."""
    assert parse_event(line) is None


def test_medians_are_taken_of_runs_that_ended() -> None:
    """A run that failed does not count; the slowest and the fastest are told."""
    rates = (300.0, 100.0, 200.0)
    runs = [Run("x", "herd", created=rate, figures=figures(rate), cpu_us=rate) for rate in rates]
    found = summarise([*runs, Run("x", "herd", problem="it ended with 1")])
    assert found is not None
    assert (found.runs, found.rate, found.slowest, found.fastest) == (3, 200.0, 100.0, 300.0)
    assert (found.created, found.cpu_us, found.p50) == (200.0, 200.0, 5.0)


def test_the_worst_run_counts_for_what_is_lost() -> None:
    """A median would hide it."""
    found = summarise([Run("x", "herd", figures=figures(10.0, lost=lost)) for lost in (0, 0, 2)])
    assert found is not None
    assert found.lost == 2


def test_a_ratio_says_how_many_times_ours_is() -> None:
    """And nothing where one of the two is missing or zero."""
    assert ratio(300.0, 100.0) == 3.0
    assert ratio(None, 100.0) is None
    assert ratio(300.0, None) is None
    assert ratio(300.0, 0.0) is None
