"""When the jobs of a task are due."""

from tests.bench.peers.task import Task
from tests.rows import each_row


def task(count: int, rate: int) -> Task:
    """One of this size, its first moment at 5 s."""
    return Task(
        work="x", count=count, rate=rate, moment=5_000, steps=1, target="", store="", client_cores=(0,)
    )


def test_a_herd_is_due_at_one_moment() -> None:
    """All of it."""
    herd = task(100, 0)
    assert {herd.planned(n) for n in range(100)} == {5_000}
    assert list(herd.groups()) == [range(100)]
    assert herd.due(99).isoformat() == "1970-01-01T00:00:05+00:00"


@each_row(("count", "rate"), [(2_000, 1_000), (100, 10), (95, 50), (7, 30)])
def test_a_steady_rate_comes_in_ten_groups_a_second(count: int, rate: int) -> None:
    """Each of its own moment, none left out, no job in two."""
    steady = task(count, rate)
    groups = list(steady.groups())
    assert [n for group in groups for n in group] == list(range(count))
    moments = [{steady.planned(n) for n in group} for group in groups]
    assert moments == [{5_000 + 100 * n} for n in range(len(groups))]
    assert max(map(len, groups)) <= rate // 10
