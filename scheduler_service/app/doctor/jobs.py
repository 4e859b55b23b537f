"""The jobs of a folder that cannot run under the given settings, where no service can be asked."""

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from itertools import islice
from pathlib import Path

from scheduler_service.app.builders import judge_of
from scheduler_service.app.data_folder import STATE_FILE, check_state
from scheduler_service.app.doctor.finding import Finding, Part, Subject
from scheduler_service.app.surroundings import Compiler, make_surroundings
from scheduler_service.domain.errors import PunctualError
from scheduler_service.persistence.sqlite.database import read_definitions
from scheduler_service.persistence.sqlite.folder import has_state, is_divided
from scheduler_service.persistence.sqlite.folder_holder import find_holder
from scheduler_service.settings import Loaded

JOBS = Part("jobs")
MOST_NAMED = 20
SECONDS = 10.0
REMEDY = "give what it names, such as a variable, and start the service anew; or update the job"


async def examine_jobs(subject: Subject, *, seconds: float = SECONDS) -> list[Finding]:
    """Reads the definitions of a folder that no service uses, and changes nothing. Raises nothing.

    After `seconds` it ends, and says that it has not looked at all jobs.
    """
    folder, until = subject.folder, time.monotonic() + seconds
    found: list[tuple[str, str]] = []
    is_cut = False
    try:
        if folder is None or not has_state(folder) or find_holder(folder) is not None:
            return []
        if is_divided(folder) or check_state(folder / STATE_FILE):
            return []  # told as one of the files: they are migrated first
        async with aclosing(find_unfit(subject.loaded, folder)) as jobs:
            async for job_id, problem in jobs:
                if problem is not None:
                    found.append((job_id, problem))
                if is_cut := time.monotonic() > until:
                    break
    except (OSError, PunctualError):
        return []  # told as one of the folder, the files or the settings
    more = "'punctual db check' names all"
    named = name_unfit(JOBS, islice(found, MOST_NAMED), len(found) - MOST_NAMED, more)
    if is_cut:
        return [*named, JOBS.warn("run", f"not all were looked at within {seconds:g} s", more)]
    return named or [JOBS.well("run", "all can")]


async def find_unfit(loaded: Loaded, folder: Path) -> AsyncGenerator[tuple[str, str | None], None]:
    """Each job, with the first reason for which it cannot run; None: it can.

    Raises StoreRefused, SettingsError, PolicyError.
    """
    around = make_surroundings(loaded.settings, "http://127.0.0.1", judge_target=judge_of(loaded))
    compiler = Compiler(defaults=loaded.settings.defaults, surroundings=around)
    for job_id, text in read_definitions(str(folder / STATE_FILE)):
        problems = (await compiler.stored(text)).problems
        yield job_id, problems[0].message if problems else None


def name_unfit(part: Part, named: Iterable[tuple[str, str]], more: int, where: str) -> list[Finding]:
    """A warning for each of the jobs, and one for `more` others, which are named `where`."""
    found = [part.warn(f"job {job_id}", f"it cannot run: {said}", REMEDY) for job_id, said in named]
    return [*found, part.warn("jobs", f"{more} more cannot run", where)] if more > 0 else found
