"""What every catalogue promises of lists, searches and figures (SPEC section 10, GET /jobs)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.document import Latest
from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.common.pagination import CursorError
from scheduler_service.ports.catalogue import LONGEST_READ, JobQuery, JobSort, LastOutcome
from scheduler_service.ports.state import OpenStore
from tests.unit.persistence.conftest import DATABASES, opened
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


@pytest.fixture(params=DATABASES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """Every database, each as it is read in."""
    async with opened(request, tmp_path) as store:
        yield store


async def ids(store: OpenStore, **query: object) -> list[str]:
    """All ids of a list, in its order, over pages of two."""
    found: list[str] = []
    cursor = None
    while True:
        page = await store.catalogue.list(JobQuery(limit=2, cursor=cursor, **query))  # type: ignore[arg-type]
        found += [item.job_id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_each_filter_chooses(store: OpenStore) -> None:
    """State, kind, label, creator, parent, text and system choose alone and together."""
    labels = {"team": "x", 'q"': "1", "Ä b": "100%"}
    await store.commit(commit("a", kind="timing", labels=labels, creator="svc"))
    await store.commit(commit("b", state=JobState.PAUSED, labels={"team": "y"}, object_id="Order_9"))
    await store.commit(commit("c", parent_job="a", parent_execution=1))
    await store.commit(commit("d", parent_job="a", parent_execution=2, tenant="other"))
    await store.commit(commit("s", system=True))
    await store.commit(commit("x"))
    await store.commit(commit("x", expected=1, document=None, state=JobState.DESTROYED))
    assert await ids(store) == ["a", "b", "c"]
    assert await ids(store, tenant=None) == ["a", "b", "c", "d"]
    assert await ids(store, tenant="other", parent_job="a") == ["d"]
    assert await ids(store, system=None) == ["a", "b", "c", "s"]
    assert await ids(store, system=True) == ["s"]
    assert await ids(store, states=(JobState.PAUSED,)) == ["b"]
    assert await ids(store, states=(JobState.DESTROYED,)) == ["x"]
    assert await ids(store, states=()) == ["a", "b", "c", "x"]
    assert await ids(store, kind="timing", creator="svc") == ["a"]
    assert await ids(store, object_id="nobody") == []
    assert await ids(store, labels=(("team", "x"), ('q"', "1"))) == ["a"]
    assert await ids(store, labels=(("team", "x"), ("team", "y"))) == []
    assert await ids(store, labels=(("Ä b", "100%"),)) == ["a"]
    assert await ids(store, labels=(("team", "X"),)) == []
    assert await ids(store, parent_job="a", parent_execution=1) == ["c"]
    assert await ids(store, text="order_") == ["b"]
    assert await ids(store, text="NAME OF a") == ["a"]
    assert await ids(store, text="SV") == ["a"]
    assert await ids(store, text="Y") == ["b"]
    assert await ids(store, text="team") == []


async def test_text_is_searched_literally(store: OpenStore) -> None:
    """%, _ and \\ in a search are ordinary characters; so is what takes four bytes."""
    for name in ("a%b", "a_b", "a\\b", "axb"):
        await store.commit(commit(name))
    assert await ids(store, text="a%b") == ["a%b"]
    assert await ids(store, text="a_b") == ["a_b"]
    assert await ids(store, text="a\\b") == ["a\\b"]
    assert await ids(store, text="'") == []
    await store.commit(commit("night", job_name="Nächtlich 😀"))
    assert await ids(store, text="lich 😀") == ["night"]


async def test_ids_that_differ_little_are_those_of_different_jobs(store: OpenStore) -> None:
    """In upper and lower case, and by a space at the end; lists are in the order of their bytes.

    Their labels too: keys see jobs by these (14).
    """
    names = ("a ", "b", "A", "a")
    for name in names:
        labels = {"team": name, f"of {name}": "ä"}
        moment = None if name == "A" else 5
        await store.commit(commit(name, next_fire=moment, object_id=name, labels=labels))
    for name in names:
        assert await ids(store, labels=(("team", name),)) == [name]
        assert await ids(store, labels=((f"of {name}", "ä"),)) == [name]
        assert await ids(store, object_id=name) == [name]
    assert await ids(store) == ["A", "a", "a ", "b"]
    assert await ids(store, descending=True) == ["b", "a ", "a", "A"]
    assert await ids(store, sort=JobSort.NEXT_FIRE_TIME) == ["a", "a ", "b", "A"]
    assert await ids(store, object_id="a ") == ["a "]
    assert await store.catalogue.get("a  ") is None
    assert (await store.catalogue.some(["a", "A", "nobody"])).keys() == {"a", "A"}


def latest(state: ExecutionState, error: str | None = None) -> bytes:
    """The newest execution, as a host keeps it."""
    return msgspec.json.encode(Latest(7, state, error))


async def test_the_newest_execution_chooses(store: OpenStore) -> None:
    """By its state, whatever an error says; what cannot be read counts as none."""
    kept = {state.value: latest(state) for state in ExecutionState}
    kept |= {"no": b"null", "empty": b"", "damaged": b"\x00\xff"}
    kept["sly"] = latest(ExecutionState.TERMINATED, '"state":"succeeded"\u00e9')
    for name, value in kept.items():
        await store.commit(commit(name, latest=value))
    found = {outcome: await ids(store, last_outcome=outcome) for outcome in LastOutcome}
    assert found == {
        "succeeded": ["succeeded"],
        "terminated": ["sly", "terminated"],
        "cancelled": ["cancelled"],
        "skipped": ["skipped"],
        "running": ["failed", "processing"],
        "waiting": ["enqueued", "scheduled"],
        "none": ["damaged", "empty", "no"],
    }


async def test_jobs_are_counted(store: OpenStore) -> None:
    """As many as a list has, by state, kind and newest execution; pages and their order do not matter."""
    succeeded, failed = latest(ExecutionState.SUCCEEDED), latest(ExecutionState.TERMINATED)
    await store.commit(commit("a", kind="timing", latest=succeeded, labels={"team": "ops"}))
    await store.commit(commit("b", state=JobState.PAUSED, latest=failed, labels={"team": "ops"}))
    await store.commit(commit("c", latest=b"null"))
    await store.commit(commit("d", tenant="other", latest=b"null"))
    await store.commit(commit("s", system=True, latest=b"null"))
    await store.commit(commit("x", latest=b"null"))
    await store.commit(commit("x", expected=1, document=None, state=JobState.DESTROYED))
    tally = await store.catalogue.tally(JobQuery(limit=1, sort=JobSort.NEXT_FIRE_TIME))
    assert (tally.total, tally.is_capped) == (3, False)
    assert tally.by_state == {JobState.ACTIVE: 2, JobState.PAUSED: 1}
    assert tally.by_kind == {"timing": 1, "cron": 2}
    assert tally.by_outcome == {LastOutcome.SUCCEEDED: 1, LastOutcome.TERMINATED: 1, LastOutcome.NONE: 1}
    some = await store.catalogue.tally(
        JobQuery(labels=(("team", "ops"),), last_outcome=LastOutcome.TERMINATED)
    )
    assert (some.total, some.by_state) == (1, {JobState.PAUSED: 1})
    assert (await store.catalogue.tally(JobQuery(text="nobody"))).total == 0
    assert (await store.catalogue.tally(JobQuery(tenant=None))).total == 4
    assert (await store.catalogue.tally(JobQuery(states=(JobState.DESTROYED,)))).total == 1


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", list(JobSort))
async def test_pages_follow_each_order(store: OpenStore, sort: JobSort, descending: bool) -> None:
    """Every order is total: pages neither repeat nor miss a job, jobs without a value come last."""
    values = [5, None, 3, 5, None, 1, 3]
    for number, value in enumerate(values):
        moment = value or 0
        await store.commit(
            commit(
                f"j{number}", job_name=f"n{moment}", created_at=moment, updated_at=-moment, next_fire=value
            )
        )
    keys = {
        JobSort.JOB_ID: lambda i: i,
        JobSort.JOB_NAME: lambda i: (values[i] or 0, i),
        JobSort.CREATED_AT: lambda i: (values[i] or 0, i),
        JobSort.UPDATED_AT: lambda i: (-(values[i] or 0), i),
        JobSort.NEXT_FIRE_TIME: lambda i: (values[i] or 0, i),
    }
    wanted = sorted(range(7), key=keys[sort], reverse=descending)
    if sort is JobSort.NEXT_FIRE_TIME:
        wanted.sort(key=lambda i: values[i] is None)
    assert await ids(store, sort=sort, descending=descending) == [f"j{i}" for i in wanted]


async def test_a_cursor_is_stable_under_inserts(store: OpenStore) -> None:
    """A job that is created between two pages moves no other one."""
    for name in ("b", "d", "f"):
        await store.commit(commit(name))
    page = await store.catalogue.list(JobQuery(limit=2))
    assert page.next_cursor is not None
    await store.commit(commit("a"))
    await store.commit(commit("e"))
    page = await store.catalogue.list(JobQuery(limit=2, cursor=page.next_cursor))
    assert [item.job_id for item in page.items] == ["e", "f"]
    assert page.next_cursor is None


@pytest.mark.parametrize("sort", [JobSort.JOB_ID, JobSort.NEXT_FIRE_TIME])
async def test_a_page_ends_early_where_labels_are_large(store: OpenStore, sort: JobSort) -> None:
    """At 4 MiB of labels, and with one job at least; the next page goes on behind it."""
    sizes = {"a": 2, "b": 1, "c": 2, "d": 5, "e": 0, "f": 1}
    for name, size in sizes.items():
        labels = {"team": "x" * (size * 1_000_000)}
        await store.commit(commit(name, labels=labels, next_fire=None if name in "ef" else 1))
    found: list[str] = []
    cursor = None
    while cursor is not None or not found:
        page = await store.catalogue.list(JobQuery(sort=sort, cursor=cursor))
        found.append("".join(item.job_id for item in page.items))
        cursor = page.next_cursor
    assert [one for one in found if one] == ["ab", "c", "d", "ef"]


async def test_a_bad_cursor_is_refused(store: OpenStore) -> None:
    """A cursor that was never given out is an error of its own, not an empty page (SPEC section 10)."""
    for cursor in ("", "x", "ä", "AAAA", "kw", "%%%", "A" * 5000):
        with pytest.raises(CursorError, match="not a cursor of this list"):
            await store.catalogue.list(JobQuery(cursor=cursor))
    # A cursor belongs to its order and direction
    for name in ("a", "b"):
        await store.commit(commit(name))
    cursor = (await store.catalogue.list(JobQuery(limit=1))).next_cursor
    with pytest.raises(CursorError, match="another order"):
        await store.catalogue.list(JobQuery(cursor=cursor, descending=True))
    with pytest.raises(CursorError, match="another order"):
        await store.catalogue.list(JobQuery(cursor=cursor, sort=JobSort.CREATED_AT))
    # It belongs to the jobs that were asked for
    assert cursor is not None
    others: list[dict[str, Any]] = [
        {"tenant": None}, {"kind": "cron"}, {"labels": (("team", "x"),)}, {"text": "a"}, {"system": True}
    ]  # fmt: skip
    for other in others:
        with pytest.raises(CursorError, match="filters"):
            await store.catalogue.list(JobQuery(cursor=cursor, **other))


async def test_revisions_are_kept_as_they_were(store: OpenStore) -> None:
    """Each definition of a life stays readable with the moment from which it held."""
    await store.commit(commit(definition=b"{1}"))
    await store.commit(commit(expected=1, revision=2, updated_at=2_000, definition=b"{2}"))
    found = await store.catalogue.revisions("uid-job")
    assert [(item.revision, item.created_at, item.text) for item in found] == [
        (1, 1_000, b"{1}"), (2, 2_000, b"{2}"),
    ]  # fmt: skip
    assert [item.revision for item in await store.catalogue.revisions("uid-job", after=1)] == [2]
    assert len(await store.catalogue.revisions("uid-job", limit=1)) == 1


async def test_children_and_lives_are_found(store: OpenStore) -> None:
    """Children are found by their parent's execution, destroyed ones too; a job by its uid."""
    await store.commit(commit("c1", parent_job="p", parent_execution=1))
    await store.commit(commit("c2", parent_job="p", parent_execution=2))
    await store.commit(
        commit("c2", expected=1, parent_job="p", parent_execution=2, document=None, state=JobState.DESTROYED)
    )
    assert [child.job_id for child in await store.catalogue.children("p")] == ["c1", "c2"]
    assert [child.job_id for child in await store.catalogue.children("p", 2)] == ["c2"]
    assert [child.job_id for child in await store.catalogue.children("p", after="c1")] == ["c2"]
    found = await store.catalogue.find("uid-c1")
    assert found is not None
    assert found.job_id == "c1"
    assert await store.catalogue.find("uid-none") is None


async def test_upcoming_and_counts(store: OpenStore) -> None:
    """Upcoming jobs fire between two moments; counts are of due jobs, waiting and running executions."""
    for number in range(4):
        await store.commit(commit(f"j{number}", next_fire=number * 10, live=number, waiting=1))
    await store.commit(commit("idle", next_fire=None, state=JobState.PAUSED))
    found = await store.catalogue.upcoming(10, 30, 2)
    assert [item.job_id for item in found] == ["j1", "j2"]
    counts = await store.catalogue.counts(Now(wall=10, steady=0))
    assert (counts.due, counts.waiting, counts.running) == (2, 4, 6)
    assert counts.by_state == {JobState.ACTIVE: 4, JobState.PAUSED: 1}
    assert (await store.catalogue.counts(Now(wall=10, steady=0), tenant="other")).by_state == {}
    for name in ("outbox", "alert.mail"):
        await store.commit(commit(name, next_fire=10, live=1, waiting=1, system=True))
    assert await store.catalogue.counts(Now(wall=10, steady=0), tenant="default") == counts
    await store.commit(commit("alert.own"))
    await store.commit(commit("foreign", next_fire=10, live=1, tenant="other"))
    assert [item.job_id for item in await store.catalogue.upcoming(10, 10, 9)] == ["j1"]
    counts = await store.catalogue.counts(Now(wall=10, steady=0), tenant=None)
    assert (counts.due, counts.waiting, counts.running) == (3, 4, 7)
    assert counts.by_state == {JobState.ACTIVE: 6, JobState.PAUSED: 1}


async def test_upcoming_jobs_of_a_part_are_found_behind_all_others(store: OpenStore) -> None:
    """Of a creator, or with all of some labels: the limit counts these alone."""
    for number in range(3):
        await store.commit(commit(f"j{number}", next_fire=number, creator="other", labels={"team": "x"}))
    await store.commit(commit("own", next_fire=9, creator="shop", labels={"team": "x", "stage": "prod"}))
    parts: list[dict[str, Any]] = [
        {"creator": "shop"},
        {"labels": [("stage", "prod"), ("team", "x")]},
        {"creator": "shop", "labels": [("team", "x")]},
    ]
    for part in parts:
        found = await store.catalogue.upcoming(0, 30, 2, tenant="default", **part)
        assert [item.job_id for item in found] == ["own"], part


async def test_children_come_without_labels(store: OpenStore) -> None:
    """500 at a time: labels of a MiB would fill the memory."""
    await store.commit(commit("a", parent_job="p", labels={"team": "x"}))
    (child,) = await store.catalogue.children("p")
    assert (child.job_id, child.labels) == ("a", {})


async def test_upcoming_jobs_come_without_labels(store: OpenStore) -> None:
    """Where so many are asked for that labels of a MiB would fill the memory."""
    await store.commit(commit("a", next_fire=10, labels={"team": "x"}))
    (whole,) = await store.catalogue.upcoming(0, 30, 9)
    (bare,) = await store.catalogue.upcoming(0, 30, 9, with_labels=False)
    assert (whole.labels, bare.labels) == ({"team": "x"}, {})
    assert msgspec.structs.replace(bare, labels=whole.labels) == whole


async def test_upcoming_leaves_the_system_s_own_jobs_out(store: OpenStore) -> None:
    """System jobs are listed only where they are asked for (SPEC section 11)."""
    await store.commit(commit("own", next_fire=10, system=True))
    assert await store.catalogue.upcoming(0, 30, 9) == []


async def test_some_jobs_are_found_at_once(store: OpenStore) -> None:
    """Those that there are, destroyed ones too, however many are asked for."""
    for number in range(3):
        await store.commit(commit(f"j{number}"))
    found = await store.catalogue.some([f"j{number}" for number in range(2, 1_200)] + ["", "j0"])
    assert sorted(found) == ["j0", "j2"]
    assert found["j2"] == await store.catalogue.get("j2")
    assert await store.catalogue.some([]) == {}


async def test_definitions_of_many_are_read_together(store: OpenStore) -> None:
    """The present revision of each that exists; one that is too long for a list is left out."""
    await store.commit(commit("a", definition=b'{"a":1}'))
    await store.commit(commit("a", expected=1, revision=2, definition=b'{"a":2}'))
    await store.commit(commit("b", definition=b'{"b":1}'))
    await store.commit(commit("long", definition=b'"' + b"x" * LONGEST_READ + b'"'))
    found = await store.catalogue.definitions(["a", "b", "long", "nobody"])
    assert found == {"a": b'{"a":2}', "b": b'{"b":1}'}
    assert await store.catalogue.definitions([]) == {}
