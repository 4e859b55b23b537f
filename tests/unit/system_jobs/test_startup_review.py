"""The review after a change of settings: each job is planned again, whatever another one meets."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.domain.errors import PunctualError
from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.catalogue import Catalogue, JobPage, JobQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.startup_review import INCOMPLETE, Review, basis_of
from scheduler_service.system_jobs.system_job_definitions import CHECK_TIMERS, FOLLOWS
from tests.unit.persistence.samples import entry
from tests.wire.service import definition

TEXT = msgspec.json.encode({"jobId": "a", **definition(timer={"period": "1h"})})


class Jobs:
    """A store of jobs in memory, some of which cannot be read; `told` are the commands that were taken."""

    def __init__(self, names: Sequence[str], broken: dict[str, Exception]) -> None:
        self._entries = {name: entry(name, kind="timing", latest=b"") for name in names}
        self._broken = broken
        self.told: list[tuple[str, Command]] = []

    async def list(self, query: JobQuery) -> JobPage:
        """One job a page, in order."""
        names = [name for name in sorted(self._entries) if query.cursor is None or name > query.cursor]
        rest = names[0] if len(names) > 1 else None
        return JobPage(tuple(self._entries[name] for name in names[:1]), rest)

    async def definitions(self, job_ids: Sequence[str]) -> dict[str, bytes]:
        """The stored texts."""
        return dict.fromkeys(job_ids, TEXT)

    async def deliver(self, job_id: str, command: Command) -> None:
        """Takes a command. Raises what the job is broken by."""
        if job_id in self._broken:
            raise self._broken[job_id]
        self.told.append((job_id, command))


async def look_at(jobs: Jobs) -> tuple[list[str], str | None, list[str]]:
    """The jobs that were planned again, what is noted at the end (None: nothing), and the log's events."""
    said: list[str] = []
    settings = Settings.model_validate({})
    review = Review(
        settings=settings,
        basis=lambda: "now",
        catalogue=cast(Catalogue, jobs),
        deliver=cast(Any, jobs.deliver),
        compile_text=DefinitionCompiler(settings=settings, surroundings=Surroundings()).stored,
        log=lambda event, /, **keys: said.append(f"{event} {keys['error']}"),
    )
    await review.start("before")
    await review.stop()
    planned = [name for name, _ in jobs.told if name != CHECK_TIMERS]
    noted = [command.definition for name, command in jobs.told if name == CHECK_TIMERS]
    label = None
    if noted and noted[0] is not None:
        label = msgspec.json.decode(noted[0].text)["labels"][FOLLOWS]
    return planned, label, said


async def test_all_are_planned_again_and_the_basis_is_noted() -> None:
    """The next start under the same settings looks at none."""
    assert await look_at(Jobs("abc", {})) == (["a", "b", "c"], "now", [])


async def test_a_damaged_job_keeps_out_no_other() -> None:
    """The others are planned again now, and the next start looks at all once more."""
    planned, label, said = await look_at(Jobs("abc", {"a": StateUnreadable("a is damaged")}))
    assert (planned, label) == (["b", "c"], "now" + INCOMPLETE)
    assert said == ["review_not_completed a is damaged"]


async def test_a_defect_ends_it_unnoted() -> None:
    """What is no fault of the store is told, and the next start repeats the review."""
    planned, label, said = await look_at(Jobs("ab", {"a": PunctualError("a defect")}))
    assert (planned, label) == ([], None)
    assert said == ["review_not_completed PunctualError: a defect"]


def test_the_variables_of_every_tenant_are_part_of_the_basis() -> None:
    """Their names, and of what kind a target in one is: a value alone is not (a token may be one)."""

    def basis(**environments: dict[str, str]) -> str:
        settings = Settings.model_validate({"env": environments})
        return basis_of(Surroundings(environment={"OWN": "1"}), settings, ())

    known = basis(zed={"BASE": "https://a.test"})
    assert basis(zed={"BASE": "https://b.test"}) == known
    others = {basis(), basis(zed={"BASE": "queue://a"}), basis(acme={"BASE": "https://a.test"})}
    assert len({known, *others}) == 4
