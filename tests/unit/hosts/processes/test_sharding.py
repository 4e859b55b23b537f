"""The shard of a job."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.hosts.processes.sharding import make_shard_of


@pytest.mark.parametrize("form", ["herd-{}", "{}", "customer-{}-daily", "a.b.{}.c"])
@pytest.mark.parametrize("shards", [2, 3, 4, 7, 32])
def test_ids_are_divided_evenly(form: str, shards: int) -> None:
    """Also those that differ in a number alone, as they mostly do."""
    shard_of = make_shard_of(shards)
    counts = Counter(shard_of(form.format(number)) for number in range(10_000))
    assert len(counts) == shards
    assert max(counts.values()) < 1.25 * 10_000 / shards


@given(st.text(), st.integers(1, 32))
def test_every_id_has_one_shard(job_id: str, shards: int) -> None:
    """Among those that there are, whatever the id is made of."""
    assert 0 <= make_shard_of(shards)(job_id) < shards


def test_shards_stay_what_they_are() -> None:
    """Files were divided by them: a change of the rule would lose jobs."""
    shard_of = make_shard_of(4)
    assert [shard_of(f"job-{number}") for number in range(12)] == NUMBERS


def test_pinned_ids_live_in_the_first_shard() -> None:
    """The system jobs, whose functions are in the service's own process."""
    shard_of = make_shard_of(8, ["clean"])
    assert shard_of("clean") == 0
    assert any(shard_of(f"clean{number}") for number in range(8))


NUMBERS = [1, 3, 2, 3, 0, 0, 0, 0, 0, 3, 2, 2]
