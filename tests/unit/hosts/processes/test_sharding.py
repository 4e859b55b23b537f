"""In which share a job lives."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.hosts.processes.sharding import make_shard_of


@pytest.mark.parametrize("form", ["herd-{}", "{}", "customer-{}-daily", "a.b.{}.c"])
@pytest.mark.parametrize("shares", [2, 3, 4, 7, 32])
def test_ids_are_divided_evenly(form: str, shares: int) -> None:
    """Also those that differ in a number alone, as they mostly do."""
    home = make_shard_of(shares)
    counts = Counter(home(form.format(number)) for number in range(10_000))
    assert len(counts) == shares
    assert max(counts.values()) < 1.25 * 10_000 / shares


@given(st.text(), st.integers(1, 32))
def test_every_id_has_one_home(job_id: str, shares: int) -> None:
    """Among those that there are, whatever the id is made of."""
    assert 0 <= make_shard_of(shares)(job_id) < shares


def test_homes_stay_what_they_are() -> None:
    """Files were divided by them: a change of the rule would lose jobs."""
    home = make_shard_of(4)
    assert [home(f"job-{number}") for number in range(12)] == HOMES


def test_pinned_ids_live_in_the_first_share() -> None:
    """The system jobs, whose functions are in the service's own process."""
    home = make_shard_of(8, ["clean"])
    assert home("clean") == 0
    assert any(home(f"clean{number}") for number in range(8))


HOMES = [1, 3, 2, 3, 0, 0, 0, 0, 0, 3, 2, 2]
