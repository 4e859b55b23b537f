"""URLs of the service that owns a job, and what a job without an owner may not have (SPEC section 9)."""

import re

from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.program import Program, Target, targets_of

OWN = re.compile(r"(?i:service):(?://\{serviceName\}|(?!//))")
OWN_BEHIND = re.compile(r"((?i:service)://\{serviceGateway\}/)\{serviceName\}(?=[/?#]|$)")
NO_OWNER = (
    "is the service that owns the job, and this job has none: write service://NAME/PATH, or send the header "
    "X-Service with the name of the service"
)


def refuse_ownerless(program: Program, owner: str) -> Refusal | None:
    """Why a job that `owner` owns (empty: no service) may not have this definition, or None."""
    if owner:
        return None
    if not program.notifications and program.check is None and program.cancel is None:
        for step in program.steps:
            if _find_own(step.target) is not None:
                break
        else:
            return None  # as with most: no pointer is written for what is not refused
    for pointer, target in targets_of(program):
        url = _find_own(target)
        if url is not None:
            place = pointer if pointer.endswith("Url") else f"{pointer}/url"
            return Refusal(RefusalCode.INVALID, f"{url[:80]!r} {NO_OWNER}", place)
    return None


def refuse_other_owner(program: Program, owner: str, sender: str) -> Refusal | None:
    """Why `sender` may not create a job with this definition that `owner` has, or None."""
    if not sender or not owner or sender == owner or refuse_ownerless(program, "") is None:
        return None
    return Refusal(
        RefusalCode.CONFLICT,
        f"the job {program.job_id!r} exists with this definition, which calls its owner, and its owner is "
        f"{owner!r}, not {sender!r}; make {sender!r} the owner with POST /jobs/{{jobId}}/update, "
        "or use another jobId",
        "/jobId",
    )


def _find_own(target: Target) -> str | None:
    """The beginning of its URL, if that is one of the service that owns the job."""
    if target.service_name is not None:
        return None
    url = target.url.text or "".join(part for part in target.url.parts[:1] if isinstance(part, str))
    if url[:8].lower() != "service:":
        return None
    return url if OWN.match(url) or OWN_BEHIND.match(url) else None
