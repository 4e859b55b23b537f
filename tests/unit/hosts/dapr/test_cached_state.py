"""What the actor store keeps of jobs between their turns."""

from scheduler_service.hosts.dapr.cached_state import CachedState, CachedStates
from scheduler_service.ports.history import Batch


def make_state() -> CachedState:
    return CachedState(raw=b"", began=0, period=0, generation=0)


def make_batch(job_id: str, sequence: int) -> Batch:
    return Batch(uid="uid1", job_id=job_id, tenant="default", sequence=sequence, at=0, records=())


def test_the_job_that_was_used_least_recently_goes() -> None:
    """And all that was kept of what the history has of it."""
    states = CachedStates(size=2)
    old, used, new = make_state(), make_state(), make_state()
    states.put("used", used)
    states.put("old", old)
    assert states.use("used") is used
    states.await_history(old, make_batch("old", 1))
    states.put("new", new)
    assert (states.get("old"), states.use("old")) == (None, None)
    assert (states.get("used"), states.get("new")) == (used, new)
    states.put("old", old)
    states.forget_batch(("uid1", 1))
    assert ("uid1", 1) in old.batches, "its key is gone with the state"


def test_a_batch_is_kept_until_the_history_has_it() -> None:
    """Of the state that the job has now, which may have been read anew meanwhile."""
    states = CachedStates()
    state, later = make_state(), make_state()
    states.put("job", state)
    states.await_history(state, None)
    batch = make_batch("job", 7)
    states.await_history(state, batch)
    assert state.batches == {("uid1", 7): batch}
    later.batches = dict(state.batches)
    states.put("job", later)
    states.forget_batch(("uid1", 7))
    states.forget_batch(("uid1", 8))
    assert later.batches == {}
    states.drop("job")
    assert states.get("job") is None
