"""Revisions, counters and identities of a job's lives (SPEC section 10)."""

import pytest

from scheduler_service.domain.replies import Refusal, RefusalCode, Taken
from scheduler_service.domain.turn_events import AlarmRang, Destroyed, Triggered, Updated
from scheduler_service.hosts.revisions import IDENTITIES_AT_ONCE, KEY_BYTES, IdentitySource
from tests.unit.hosts.house import describe
from tests.unit.hosts.memory_store import head_of
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio


async def test_a_sequence_is_never_used_twice(bench: Bench) -> None:
    """Each start counts above all that an earlier one can have reached, also in memory (ports.Batch)."""
    await bench.create(request=[{"url": "http://a.test/1"}, {"url": "http://a.test/2"}])
    await bench.run(Triggered())
    await bench.answer()
    known = {batch.sequence for batch, _ in bench.history.batches}
    after = Bench(bench.disk, boot=2)
    await after.run(AlarmRang())
    fresh = {batch.sequence for batch, _ in after.history.batches}
    assert fresh
    assert min(fresh) >= 2 << 32 > max(known)


async def test_revisions_are_numbered_by_the_turn_and_kept_only_where_accepted(bench: Bench) -> None:
    """Created 1, then one more for each update that was not refused."""
    await bench.create()
    refused = await bench.run(Updated(0, if_match=frozenset({7})), definition=describe(jobName="other"))
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.PRECONDITION
    assert (
        await bench.run(Updated(0, if_match=frozenset({1})), definition=describe(jobName="other")) == Taken()
    )
    assert sorted(bench.disk.definitions) == [("uid1", 1), ("uid1", 2)]
    assert bench.disk.jobs["job"].entry.job_name == "other"
    assert sorted(bench.cached.programs) == [2]


async def test_the_same_definition_again_is_no_change(bench: Bench) -> None:
    """The fingerprint comes from the definition that the event brings (SPEC section 10)."""
    await bench.create()
    await bench.create()
    assert len(bench.disk.commits) == 1
    refused = await bench.create(jobName="other")
    assert isinstance(refused, Refusal)
    assert len(bench.disk.commits) == 1


async def test_a_later_life_goes_on_counting(bench: Bench) -> None:
    """After a destruction: a new uid, the first revision, counters go on (SPEC section 10)."""
    await bench.create()
    await bench.run(Triggered())
    await bench.run(Destroyed())
    after = Bench(bench.disk, boot=2)
    await after.create()
    head = head_of(bench.disk.jobs["job"])
    assert (head.uid, head.revision, head.execute_number, head.request_counts) == ("uid2", 1, 1, 1)


def test_no_two_lives_are_alike() -> None:
    """Uids are 32 hex digits, keys random, also beyond one helping of chance."""
    new_life = IdentitySource()
    new_identity = [new_life() for _ in range(3 * IDENTITIES_AT_ONCE)]
    assert len({uid for uid, _ in new_identity}) == len({key for _, key in new_identity}) == len(new_identity)
    assert all(len(uid) == 32 and int(uid, 16) >= 0 and len(key) == KEY_BYTES for uid, key in new_identity)
    # As that of a machine without a battery does
    new_life = IdentitySource(now=lambda: 0)
    assert new_life()[0].startswith("0" * 12)
    assert len(new_life()[0]) == 32
    # Lives that begin one after the other are in order: their rows lie together
    moments = iter(range(1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 10_000_000))
    new_life = IdentitySource(now=lambda: next(moments))
    uids = [new_life()[0] for _ in range(100)]
    assert uids == sorted(uids)
    assert int(uids[0][:12], 16) == 1_700_000_000_000
