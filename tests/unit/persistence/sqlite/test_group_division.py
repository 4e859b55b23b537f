"""However much waits, a group that is written has so many bytes at most."""

from msgspec.structs import replace

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.sqlite.commit_group import Settle, Write, Written
from scheduler_service.persistence.sqlite.group_division import GROUP_BYTES, divide, weigh
from scheduler_service.ports.state import Settlement
from tests.unit.persistence.samples import commit, delivery

THIRD = b"x" * (GROUP_BYTES // 3)
LARGE = replace(delivery(1), request=OutboundRequest("POST", "http://t/x", (), 2 * THIRD))


def divide_weighed(writes: list[Write]) -> list[list[Write]]:
    """As the thread that has weighed them asks for it."""
    return list(divide(writes, sum(map(weigh, writes))))


def test_what_is_small_is_one_group() -> None:
    """The list as it was given."""
    writes: list[Write] = [commit(f"job-{number}") for number in range(1_000)]
    (group,) = divide_weighed(writes)
    assert group is writes
    assert list(divide_weighed([])) == [[]]


def test_what_is_large_is_several_groups_in_order() -> None:
    """States, definitions and bodies of notifications count; a write is never divided."""
    writes: list[Write] = [
        commit("a", document=THIRD),
        commit("b", definition=THIRD),
        Written((("u", 1),)),
        commit("c", deliveries=(LARGE,)),
        Settle((Settlement(LARGE, done=False),)),
        commit("d", document=9 * THIRD),
        commit("e"),
        commit("f", document=THIRD),
    ]
    groups = divide_weighed(writes)
    assert [len(group) for group in groups] == [3, 1, 1, 1, 2]
    assert [write for group in groups for write in group] == writes
