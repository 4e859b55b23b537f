"""Generated groups of writes, and of writes before them."""

from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.sqlite.commit_group import ConfirmedBatches, Forget, Keep, Settle, Write
from scheduler_service.ports.state import Remembered, Settlement
from tests.unit.persistence.samples import batch, commit, delivery

UIDS = {"a": ["u", "v"], "b": ["w", "x"]}
"""The uids of two lives of each job. A uid belongs to one job, in the store too."""

jobs = st.sampled_from(sorted(UIDS))
numbers = st.integers(0, 3)


@st.composite
def turns(draw: st.DrawFn) -> Write:
    """A turn that may or may not be expected, with any of its parts."""
    job_id, is_last, number = draw(jobs), draw(st.booleans()), draw(numbers)
    remembered = Remembered(
        "s", draw(st.sampled_from("kl")), b"", str(number).encode(), number, draw(st.sampled_from(["", "a"]))
    )
    return commit(
        job_id,
        expected=draw(st.sampled_from([0, 0, 1, 1, 2, 3])),
        uid=draw(st.sampled_from(UIDS[job_id])),
        state=JobState.DESTROYED if is_last else JobState.ACTIVE,
        document=None if is_last else str(number).encode(),
        job_name=draw(st.sampled_from(["x", "y"])),
        revision=draw(st.integers(1, 2)),
        definition=draw(st.sampled_from([None, b"{1}", b"{2}"])),
        batch=draw(st.sampled_from([None, batch(1), batch(2)])),
        deliveries=draw(st.sampled_from([(), (delivery(1),), (delivery(1, tries=1), delivery(2))])),
        remembered=draw(st.sampled_from([None, remembered])),
    )


settlements = st.builds(
    lambda number, tries, done: Settle((Settlement(delivery(number, tries=tries), done=done),)),
    numbers,
    numbers,
    st.booleans(),
)
writes: st.SearchStrategy[Write] = st.one_of(
    turns(),
    turns(),
    settlements,
    st.builds(lambda uid, number: ConfirmedBatches(((uid, number),)), st.sampled_from("uw"), numbers),
    jobs.map(Forget),
    numbers.map(lambda number: Keep("skew", number)),
)
befores, groups = st.lists(writes, max_size=6), st.lists(writes, max_size=12)
