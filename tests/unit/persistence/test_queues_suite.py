"""What the queues of every store promise: who gets what, and how long (SPEC section 13)."""

from typing import Any, cast

import pytest

from scheduler_service.domain.effects import PublishParts, ReconfigureParts, WithdrawParts
from scheduler_service.domain.leases import Claim, EndedPart, Freeing, LeaseHolder
from scheduler_service.domain.step_parts import PartEnd, PartName, QueuedPart, QueueOptions, write_part_id
from tests.present import present
from tests.unit.persistence.queue_bench import DONE, REQUEST, Bench

pytestmark = pytest.mark.anyio


async def test_a_part_is_in_one_hand(bench: Bench) -> None:
    """Whoever comes second gets nothing; another queue and another tenant have their own."""
    await bench.publish()
    (leased,) = await bench.claim("a", now=5)
    assert (leased.until, leased.part.request) == (60_005, REQUEST)
    assert await bench.claim("b") == ()
    await bench.publish()
    other = Claim("default", "else", "a", ("x",), 0)
    assert await bench.queues.claim(other) == ()
    assert await bench.queues.claim(Claim("other", "work", "a", ("x",), 0)) == ()
    assert len(await bench.claim("b")) == 1


async def test_priority_then_name_then_age(bench: Bench) -> None:
    """The highest priority first; of equals those that name the instance; of these the oldest."""
    await bench.publish()
    await bench.publish(specific=("a",))
    await bench.publish(priority=5)
    await bench.publish(priority=5, specific=("a",))
    await bench.publish(priority=-1)
    await bench.publish()
    assert await bench.executions_of("a", most=10) == [4, 3, 2, 1, 6, 5]


async def test_specific_instances_alone_may_claim(bench: Bench) -> None:
    """Where instances are named no other one gets the part."""
    await bench.publish(specific=("a", "b"))
    assert await bench.claim("c") == ()
    assert await bench.executions_of("b") == [1]


async def test_an_instance_gets_one_part_of_a_step(bench: Bench) -> None:
    """Neither at once nor one after the other: it has handled that step already."""
    await bench.publish(3)
    (first,) = await bench.claim("a", most=5)
    assert await bench.claim("a") == ()
    assert isinstance(await bench.queues.complete(first.lease, DONE, 1), EndedPart)
    assert await bench.claim("a", now=1) == ()
    indices = {(await bench.claim(name))[0].part.name.index for name in ("b", "c")}
    assert indices == {1, 2}
    assert await bench.claim("d") == ()


async def test_the_other_parts_of_a_step_hide_nothing_behind_them(bench: Bench) -> None:
    """Who may have one of them alone gets what comes next as well."""
    await bench.publish(3, priority=1)
    await bench.publish()
    assert await bench.executions_of("a", most=2) == [1, 2]
    assert await bench.executions_of("b", most=1) == [1]


async def test_an_instance_that_lost_its_lease_may_claim_again(bench: Bench) -> None:
    """It did not handle the part: it may just have been restarted."""
    await bench.publish(2, delay=0)
    await bench.claim("a")
    await bench.queues.sweep(60_000)
    assert len(await bench.claim("a", now=60_000)) == 1


async def test_room_is_what_a_claim_asks(bench: Bench) -> None:
    """Never more than `max`."""
    for _ in range(4):
        await bench.publish()
    assert await bench.executions_of("a", most=3) == [1, 2, 3]


async def test_a_claim_is_bounded_by_what_its_parts_weigh(bench: Bench) -> None:
    """4 MiB, and one part at least; the others stay for the next claim, in their order."""
    for size in (1, 1, 1, 1, 1, 5, 5, 0):
        await bench.publish(body=b"1" * (size * 1_000_000))
    claimed: list[int] = []
    while found := await bench.executions_of("a", most=100):
        assert len(found) <= 4
        claimed += found
    assert sorted(claimed) == list(range(1, 9))


async def test_a_full_instance_gets_nothing(bench: Bench) -> None:
    """What it holds under lease counts against its capacity; what is over or unwanted does not."""
    for _ in range(8):
        await bench.publish(lease=1_000)
    first, second = await bench.claim("a", most=5, capacity=2)
    assert await bench.claim("a", most=5, capacity=2) == ()
    assert len(await bench.claim("b", most=1, capacity=2)) == 1
    assert await bench.queues.complete(first.lease, DONE, 1)
    assert len(await bench.claim("a", most=5, capacity=2)) == 1
    await bench.write(WithdrawParts("uid", second.part.name.execute_number))
    assert len(await bench.claim("a", most=5, capacity=2)) == 1
    assert await bench.claim("a", now=999, capacity=2) == ()
    assert len(await bench.claim("a", most=5, now=1_000, capacity=2)) == 2
    assert await bench.claim("a", now=1_000, capacity=0) == ()
    assert len(await bench.claim("a", now=1_000)) == 1


async def test_a_renewed_lease_counts_anew(bench: Bench) -> None:
    """From the renewal on; one that has ended cannot be renewed."""
    await bench.publish(lease=1_000, renew=300)
    (leased,) = await bench.claim()
    renewed = present(await bench.queues.renew(leased.lease, 999))
    assert (renewed.until, renewed.lease, renewed.renew, renewed.cancelled) == (1_999, 1_000, 300, False)
    assert await bench.queues.renew(leased.lease, 1_999) is None
    assert await bench.queues.renew("nobody's", 0) is None
    # At the lease's very end it is lost, whether or not anybody has looked
    await bench.publish(lease=1_000)
    (leased,) = await bench.claim()
    assert await bench.queues.complete(leased.lease, DONE, 1_000) is False
    assert isinstance(await bench.queues.complete(leased.lease, DONE, 999), EndedPart)


async def test_completing_again_changes_nothing(bench: Bench) -> None:
    """The same end again, whenever, is answered as done, another one as lost; the part has one end."""
    await bench.publish()
    (leased,) = await bench.claim("a")
    ended = await bench.queues.complete(leased.lease, DONE, 1)
    assert isinstance(ended, EndedPart)
    assert (ended.job_id, ended.end.instance, ended.end.body, ended.request) == ("job-1", "a", b"1", REQUEST)
    assert await bench.queues.complete(leased.lease, PartEnd(body=b"1", at=9), 90_000) is True
    for other in (PartEnd(error="no"), PartEnd(body=b"2"), PartEnd()):
        assert await bench.queues.complete(leased.lease, other, 2) is False
    assert [one.end.body for one in await bench.queues.ended("", 10)] == [b"1"]


async def test_what_was_completed_is_known_when_the_part_is_gone(bench: Bench) -> None:
    """Its turn has withdrawn the step: the answer may have been lost all the same, and is given again."""
    await bench.publish()
    (leased,) = await bench.claim()
    assert await bench.queues.complete(leased.lease, DONE, 1)
    await bench.write(WithdrawParts("uid", bench.executions))
    assert await bench.queues.complete(leased.lease, PartEnd(body=b"1", at=9), 90_000) is True
    for other in (PartEnd(error="no"), PartEnd(body=b"2"), PartEnd()):
        assert await bench.queues.complete(leased.lease, other, 2) is False
    assert await bench.queues.ended("", 10) == []


async def completed(bench: Bench, at: int = 0) -> str:
    """A lease of a step that is over."""
    await bench.publish()
    (leased,) = await bench.claim()
    assert await bench.queues.complete(leased.lease, PartEnd(body=b"1", at=at), 1)
    await bench.write(WithdrawParts("uid", bench.executions))
    return leased.lease


async def are_known(bench: Bench, leases: list[str]) -> list[bool | EndedPart]:
    """Whether the store knows of each that it was completed."""
    return [await bench.queues.complete(lease, DONE, 1) for lease in leases]


async def test_completions_are_known_for_a_day(bench: Bench) -> None:
    """For a day, and so many of the newest: the store does not grow for ever."""
    day = 24 * 3_600_000
    leases = [await completed(bench, at) for at in (1, 2, day + 1)]
    assert await are_known(bench, leases) == [True, True, True]
    leases.append(await completed(bench, day + 2))
    assert await are_known(bench, leases) == [False, True, True, True]
    cast("Any", bench.queues).max_completions = 2
    leases = [await completed(bench) for _ in range(4)]
    assert await are_known(bench, leases) == [False, False, True, True]


async def test_an_old_lease_is_no_key_to_the_next(bench: Bench) -> None:
    """Fencing: who lost it can neither renew nor complete what another one has now."""
    await bench.publish(lease=1_000, delay=0)
    (old,) = await bench.claim("a")
    await bench.queues.sweep(1_000)
    (new,) = await bench.claim("b", now=1_000)
    assert await bench.queues.renew(old.lease, 1_001) is None
    assert await bench.queues.complete(old.lease, DONE, 1_001) is False
    assert isinstance(await bench.queues.complete(new.lease, DONE, 1_001), EndedPart)


async def test_a_lease_is_of_its_tenant_and_queue(bench: Bench) -> None:
    """Others neither renew nor complete it, though they know its name (SPEC section 14)."""
    await bench.publish()
    (leased,) = await bench.claim()
    tenant, queue = leased.part.tenant, leased.part.queue
    for other in (LeaseHolder("elsewhere"), LeaseHolder("elsewhere", queue), LeaseHolder(tenant, "another")):
        assert await bench.queues.renew(leased.lease, 1, other) is None
        assert await bench.queues.complete(leased.lease, DONE, 1, other) is False
    assert await bench.queues.renew(leased.lease, 1, LeaseHolder(tenant)) is not None
    assert isinstance(
        await bench.queues.complete(leased.lease, DONE, 1, LeaseHolder(tenant, queue)), EndedPart
    )
    assert await bench.queues.complete(leased.lease, DONE, 2, LeaseHolder("elsewhere")) is False


async def test_unexpected_ends_are_retried_so_often(bench: Bench) -> None:
    """After `unexpectedRetryDelaySeconds` each; then the part has failed, with `timeout`."""
    await bench.publish(lease=1_000, retries=2, delay=500)
    now = 0
    for _ in range(2):
        assert len(await bench.claim(now=now)) == 1
        swept = await bench.queues.sweep(now + 1_000)
        assert (swept.ended, swept.next_look) == ((), now + 1_500)
        assert await bench.claim(now=now + 1_499) == ()
        now += 1_500
    await bench.claim("z", now=now)
    (ended,) = (await bench.queues.sweep(now + 1_000)).ended
    assert (ended.end.error, ended.end.failure_type, ended.end.instance) == ("timeout", "timeout", "z")
    assert await bench.queues.complete(f"lease-{bench.leases - 1}", DONE, now + 1_001) is False
    assert await bench.claim(now=now + 99_000) == ()


async def test_the_next_look(bench: Bench) -> None:
    """At the end of the first lease; where nothing waits, never."""
    assert (await bench.queues.sweep(0)).next_look is None
    await bench.publish(lease=5_000)
    await bench.publish(lease=1_000)
    await bench.claim(most=2)
    assert (await bench.queues.sweep(10)).next_look == 1_000


async def test_withdrawn_parts(bench: Bench) -> None:
    """Free parts are gone; a holder learns of it at the renewal, and its end is delivered to no job."""
    await bench.publish(3)
    (leased,) = await bench.claim("a")
    await bench.write(WithdrawParts("uid", 1, 1))
    assert await bench.claim("b") == ()
    renewed = present(await bench.queues.renew(leased.lease, 10))
    assert renewed.cancelled
    completed = await bench.queues.complete(leased.lease, DONE, 20)
    assert isinstance(completed, EndedPart)
    assert completed.is_withdrawn
    assert await bench.queues.ended("", 10) == []
    assert await bench.queues.renew(leased.lease, 30) is None
    assert await bench.queues.complete(leased.lease, DONE, 40) is False


async def test_a_withdrawn_part_goes_with_its_lease(bench: Bench) -> None:
    """No instance claims it again, and no job gets its end."""
    await bench.publish(lease=1_000, delay=0)
    await bench.claim()
    await bench.write(WithdrawParts("uid", 1))
    assert (await bench.queues.sweep(1_000)).ended == ()
    assert await bench.claim(now=2_000) == ()


async def test_another_attempt_is_left_alone(bench: Bench) -> None:
    """Parts are withdrawn by attempt, or all of an execution."""
    await bench.publish()
    await bench.write(WithdrawParts("uid", 1, 7))
    await bench.write(WithdrawParts("uid", 2))
    assert await bench.executions_of() == [1]


async def test_publishing_twice_is_publishing_once(bench: Bench) -> None:
    """A turn that is committed again finds its parts as they are, leased or not."""
    name = PartName("uid", 1, 1, 0, 0)
    options = QueueOptions()
    part = QueuedPart(name, "work", 1, REQUEST, options, 0, 1, "job", "default")
    await bench.write(PublishParts((part,)))
    (leased,) = await bench.claim()
    await bench.write(PublishParts((part,)))
    assert await bench.claim("b") == ()
    assert isinstance(await bench.queues.complete(leased.lease, DONE, 1), EndedPart)


async def test_new_options_count_from_the_next_claim_and_renewal(bench: Bench) -> None:
    """A lease that an instance has keeps its length until it is renewed."""
    (name,) = await bench.publish(lease=1_000, renew=400)
    (leased,) = await bench.claim()
    await bench.write(ReconfigureParts(name, QueueOptions(lease=9_000, renew=3_000, retries=0)))
    assert leased.until == 1_000
    renewed = present(await bench.queues.renew(leased.lease, 500))
    assert (renewed.until, renewed.renew) == (9_500, 3_000)
    (ended,) = (await bench.queues.sweep(9_500)).ended
    assert ended.part_id == write_part_id(name)


async def test_who_is_no_longer_named_loses_the_part(bench: Bench) -> None:
    """Its lease ends at once and is no retry; those who are named may claim."""
    (name,) = await bench.publish(retries=0)
    (leased,) = await bench.claim("a")
    await bench.write(ReconfigureParts(name, QueueOptions(specific=("b",))))
    assert await bench.queues.renew(leased.lease, 1) is None
    assert await bench.queues.complete(leased.lease, DONE, 1) is False
    assert await bench.claim("a") == ()
    assert len(await bench.claim("b")) == 1
    # Only the others' leases end
    (name,) = await bench.publish()
    (leased,) = await bench.claim("a")
    await bench.write(ReconfigureParts(name, QueueOptions(specific=("a", "b"), priority=3)))
    assert isinstance(await bench.queues.complete(leased.lease, DONE, 1), EndedPart)


async def test_a_lease_can_be_ended_early(bench: Bench) -> None:
    """It is lost as one that was not renewed: the part is counted and free again; only its own queue can."""
    (name,) = await bench.publish(retries=1, delay=7)
    (leased,) = await bench.claim("a")
    part_id = write_part_id(name)
    assert await bench.queues.free(Freeing("default", "else", part_id, 5)) is None
    assert await bench.queues.free(Freeing("other", "work", part_id, 5)) is None
    freed = present(await bench.queues.free(Freeing("default", "work", part_id, 5)))
    assert [change.is_lost for change in freed.freed[0].changes] == [False, True]
    assert (freed.ended, freed.next_look) == ((), 12)
    assert await bench.queues.free(Freeing("default", "work", part_id, 5)) is None
    assert await bench.queues.renew(leased.lease, 5) is None
    assert await bench.claim("b", now=11) == ()
    assert len(await bench.claim("b", now=12)) == 1
    assert await bench.queues.free(Freeing("default", "work", "uid-9-9-0-0", 12)) is None
    # What was freed stays so, whatever comes next: the start that follows a crash, for example
    (name,) = await bench.publish(delay=0)
    (leased,) = await bench.claim("a")
    assert await bench.queues.free(Freeing("default", "work", write_part_id(name), 5)) is not None
    await bench.queues.extend(6)
    assert await bench.queues.renew(leased.lease, 7) is None
    assert len(await bench.claim("b", now=7)) == 1
    # As one that was not renewed does
    (name,) = await bench.publish(retries=0)
    await bench.claim("a")
    freed = present(await bench.queues.free(Freeing("default", "work", write_part_id(name), 5)))
    assert [(one.name, one.end.error) for one in freed.ended] == [(name, "timeout")]
    assert await bench.queues.ended("", 9) == list(freed.ended)


async def test_a_lease_that_is_handed_back_is_no_retry(bench: Bench) -> None:
    """The next claim gets the part at once; another lease of the part is not touched."""
    (name,) = await bench.publish(retries=0, delay=7)
    (leased,) = await bench.claim("a")
    part_id = write_part_id(name)
    assert await bench.queues.free(Freeing("default", "work", part_id, 5, lease="other")) is None
    freed = present(await bench.queues.free(Freeing("default", "work", part_id, 5, lease=leased.lease)))
    assert [change.is_lost for change in freed.freed[0].changes] == [False, True]
    assert await bench.queues.renew(leased.lease, 5) is None
    (again,) = await bench.claim("b", now=5)
    assert await bench.queues.free(Freeing("default", "work", part_id, 6, lease=leased.lease)) is None
    assert await bench.queues.renew(again.lease, 6) is not None


async def test_downtime_is_not_held_against_instances(bench: Bench) -> None:
    """After a start every lease has its whole length again, but none gets shorter."""
    await bench.publish(lease=1_000)
    await bench.publish(lease=90_000)
    short, long = await bench.claim(most=2)
    await bench.queues.extend(5_000)
    assert await bench.queues.renew(short.lease, 5_999) is not None
    assert (await bench.queues.sweep(5_999)).next_look == 6_999
    assert await bench.queues.renew(long.lease, 89_999) is not None


async def test_ends_stay_until_they_are_dropped(bench: Bench) -> None:
    """They are returned again after a start; a leased part cannot be dropped."""
    names = await bench.publish(2)
    (leased,) = await bench.claim("a")
    await bench.claim("b")
    await bench.queues.complete(leased.lease, DONE, 1)
    for name in names:
        await bench.queues.drop(write_part_id(name))
    assert await bench.queues.ended("", 10) == []
    assert await bench.claim("c") == ()


@pytest.mark.parametrize("is_repeated", [False, True])
async def test_a_dropped_end_is_known_only_where_it_was_repeated(bench: Bench, is_repeated: bool) -> None:
    """What a repetition was answered once is true from then on; dropping the part again changes nothing."""
    for _ in range(2):
        (name,) = await bench.publish()
        (leased,) = await bench.claim()
        assert await bench.queues.complete(leased.lease, DONE, 1)
        if is_repeated:
            assert await bench.queues.complete(leased.lease, PartEnd(error="no"), 2) is False
            assert await bench.queues.complete(leased.lease, DONE, 2) is True
        await bench.queues.drop(write_part_id(name))
        await bench.queues.drop(write_part_id(name))
        assert await bench.queues.complete(leased.lease, DONE, 2) is is_repeated
        assert await bench.queues.complete(leased.lease, PartEnd(error="no"), 2) is False
    assert await bench.queues.ended("", 10) == []


async def test_ends_are_read_in_pages(bench: Bench) -> None:
    """In order of their ids."""
    for _ in range(5):
        await bench.publish()
    for leased in await bench.claim(most=5):
        await bench.queues.complete(leased.lease, DONE, 1)
    first = await bench.queues.ended("", 3)
    second = await bench.queues.ended(first[-1].part_id, 3)
    assert [one.name.execute_number for one in [*first, *second]] == [1, 2, 3, 4, 5]
