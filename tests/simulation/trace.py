"""What happened in a world, line by line in order of time, and the smallest plan in which it still does."""

from collections.abc import Callable, Iterator

import msgspec

from scheduler_service.engine.document_bytes import decode, is_apart
from tests.simulation.disk import Written
from tests.simulation.jobs import JobPlan
from tests.simulation.target import Seen
from tests.simulation.world import World, WorldPlan

replace = msgspec.structs.replace


def tell(world: World) -> list[str]:
    """Faults, lives of nodes, what callers asked, what became durable, and what targets saw."""
    lines = list(world.trace)
    lines += [(one.order, _describe_request(one)) for one in world.targets.seen]
    lines += [(one.order, _describe_commit(one)) for one in world.disk.written]
    return [line for _, line in sorted(lines)]


def shrink(plan: WorldPlan, fails: Callable[[WorldPlan], bool]) -> WorldPlan:
    """The plan without jobs, faults and asks that are not needed for it to fail."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(plan):
            if fails(smaller):
                plan, is_smaller = smaller, True
                break
    return plan


def _smaller(plan: WorldPlan) -> Iterator[WorldPlan]:
    """One thing less: jobs first, as most goes with them."""
    if len(plan.jobs) > 1:
        for job in plan.jobs:
            yield replace(plan, jobs=tuple(one for one in plan.jobs if one is not job))
    for fault in plan.faults:
        yield replace(plan, faults=tuple(one for one in plan.faults if one is not fault))
    for place, job in enumerate(plan.jobs):
        for ask in job.asks[1:]:
            fewer = replace(job, asks=tuple(one for one in job.asks if one is not ask))
            yield _with_job(plan, place, fewer)
        for member in job.definition.keys() & {"retry", "notification", "async"}:
            less = {name: value for name, value in job.definition.items() if name != member}
            if member == "notification":
                less["notification"] = []
            if member == "async":
                less.pop("checkUrl", None)
            if less != job.definition:
                yield _with_job(plan, place, replace(job, definition=less))


def _with_job(plan: WorldPlan, place: int, job: JobPlan) -> WorldPlan:
    return replace(plan, jobs=(*plan.jobs[:place], job, *plan.jobs[place + 1 :]))


def _describe_request(seen: Seen) -> str:
    what = f"{seen.job_id} {seen.path} of {seen.execution}.{seen.attempt} → {seen.status or 'no answer'}"
    return f"{seen.at:9.3f} {seen.life:8} sends {what}"


def _describe_commit(written: Written) -> str:
    commit = written.commit
    state = "gone"
    if commit.document is not None and is_apart(commit.document):
        state = f"{commit.entry.state}, {commit.entry.live} live, due {commit.due.wall}, {commit.due.steady}"
    elif commit.document is not None:
        document = decode(commit.document)
        opens = ", ".join(f"{run.execute_number} {run.state}" for run in document.head.opens)
        state = f"[{opens}] due {commit.due.wall}, {commit.due.steady}"
    records = () if commit.batch is None else commit.batch.records
    kinds = " ".join(type(one).__name__ for one in records)
    return f"{written.at:9.3f} {written.life:8} commit {commit.entry.job_id} {state} {kinds}"
