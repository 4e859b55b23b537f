"""Examines all parts, one behind the other, each within a limit of time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

from scheduler_service.app.doctor.daprd import examine_daprd
from scheduler_service.app.doctor.database import examine_contexts, examine_database
from scheduler_service.app.doctor.finding import DoctorFinding, ExaminedPart, ExaminedService
from scheduler_service.app.doctor.folder import examine_folder, examine_jobs
from scheduler_service.app.doctor.machine import examine_limits, examine_versions, judge_step
from scheduler_service.app.doctor.service import examine_service
from scheduler_service.app.doctor.settings import examine_settings

PART_SECONDS = 15.0
"""What a part may take: a server that hangs holds up the examination no longer."""

LONGEST_REASON = 200
Examine = Callable[[ExaminedService], Awaitable[list[DoctorFinding]]]

PARTS: Mapping[str, Examine] = {
    "versions": examine_versions,
    "settings": examine_settings,
    "limits": examine_limits,
    "folder": examine_folder,
    "jobs": examine_jobs,
    "service": examine_service,
    "contexts": examine_contexts,
    "database": examine_database,
    "daprd": examine_daprd,
}


async def examine(
    subject: ExaminedService, *, parts: Mapping[str, Examine] = PARTS, seconds: float = PART_SECONDS
) -> list[DoctorFinding]:
    """The findings about every part that the settings name, in the order of `parts`. Never raises."""
    began = time.time() - time.monotonic()
    found: list[DoctorFinding] = []
    for name, look in parts.items():
        try:
            async with asyncio.timeout(seconds):
                found += await look(subject)
        except TimeoutError:
            remedy = "see why it hangs: a full disk, a server that is frozen, or a network that drops packets"
            found.append(ExaminedPart(name).fail("answer", f"no answer within {seconds:g} s", remedy))
        except Exception as error:  # noqa: BLE001 - what answers there may say anything; the others are looked at
            said = f"what was found cannot be read ({type(error).__name__}: {str(error)[:LONGEST_REASON]})"
            found.append(ExaminedPart(name).fail("answer", said, "see that it is what the settings name"))
    return [*found, *judge_step(time.time() - time.monotonic() - began)]
