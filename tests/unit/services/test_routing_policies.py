"""Each policy against the property that defines it, over 10,000 decisions (SPEC section 13)."""

from collections import Counter

from scheduler_service.services.routing_policies import (
    FAILOVER,
    HASH,
    LEAST_BUSY,
    RANDOM,
    ROUND_ROBIN,
    Candidate,
    Question,
    choose,
    narrow,
)
from tests.rows import each_row

MANY = 10_000


def candidates(count: int, **members: object) -> list[Candidate]:
    """As many instances, in the order of their ids."""
    return [Candidate(f"i{number:02}", f"http://i{number}.test", **members) for number in range(count)]  # type: ignore[arg-type]


def decide(route: str, among: list[Candidate], count: int = MANY) -> list[str]:
    """What the policy chooses for as many executions, one after the other."""
    chosen: list[str] = []
    for number in range(count):
        last = chosen[-1] if chosen else ""
        question = Question(key=f"job-{number}", seed=f"uid:{number}", last=last)
        chosen.append(choose(route, among, question)[0].instance)
    return chosen


@each_row("count", [2, 7, 10])
def test_random_is_even(count: int) -> None:
    """Each instance is as likely as the others: within five standard deviations."""
    found = Counter(decide(RANDOM, candidates(count)))
    share = MANY / count
    spread = (share * (1 - 1 / count)) ** 0.5
    assert len(found) == count
    assert all(abs(times - share) < 5 * spread for times in found.values()), found


def test_round_robin_takes_turns() -> None:
    """Any run of as many decisions as there are instances has each of them once."""
    chosen = decide(ROUND_ROBIN, candidates(7))
    assert all(len(set(chosen[at : at + 7])) == 7 for at in range(MANY - 6))


def test_least_busy_evens_out() -> None:
    """What each one has to do never differs by more than one, whatever they began with."""
    busy = {f"i{number:02}": number * 10 for number in range(8)}
    for number in range(MANY):
        among = [Candidate(name, "http://a.test", busy=load) for name, load in sorted(busy.items())]
        chosen = choose(LEAST_BUSY, among, Question(seed=str(number)))[0]
        assert chosen.busy == min(busy.values())
        busy[chosen.instance] += 1
    assert max(busy.values()) - min(busy.values()) <= 1


def test_hash_is_sticky_when_an_instance_leaves() -> None:
    """Only the keys of the one that left move, and they spread over all the others."""
    everybody = candidates(8)
    before = decide(HASH, everybody)
    left = [one for one in everybody if one.instance != "i03"]
    after = decide(HASH, left)
    moved = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert {one for one, _ in moved} == {"i03"}
    assert len(moved) == before.count("i03")
    assert {other for _, other in moved} == {one.instance for one in left}
    assert decide(HASH, everybody) == before, "it comes back to its own"


def test_failover_keeps_its_order() -> None:
    """Always the first one that can be chosen, whichever of the others are there."""
    everybody = candidates(10)
    for number in range(MANY):
        among = [one for place, one in enumerate(everybody) if number >> place & 1]
        if among:
            assert choose(FAILOVER, among, Question(seed=str(number))) == [among[0]]


@each_row("route", ["broadcast", "shard"])
@each_row("count", [1, 3, 100])
def test_a_spread_takes_all(route: str, count: int) -> None:
    """Every instance, once, in the order of their ids."""
    assert choose(route, candidates(count), Question()) == candidates(count)


def test_tags_narrow() -> None:
    """An instance must have all the tags that the step names."""
    among = [
        Candidate("a", "http://a.test", ("gpu", "eu")),
        Candidate("b", "http://b.test", ("gpu",)),
        Candidate("c", "http://c.test"),
    ]
    assert [one.instance for one in narrow(among, ())] == ["a", "b", "c"]
    assert [one.instance for one in narrow(among, ("gpu",))] == ["a", "b"]
    assert [one.instance for one in narrow(among, ("eu", "gpu"))] == ["a"]
    assert narrow(among, ("us",)) == []
