"""Trials: jobs that run a definition once, and are destroyed by the service itself (SPEC section 10)."""

from typing import Final

from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import MINUTE

TRIALS: Final = "punctual:trials"
"""The `parentJob` of all trials: by it they are found."""
KEPT_MS: Final = 10 * MINUTE
"""A trial stays so long after its creation, and then until its execution has ended."""
_BEGIN = "trial:"


def write_trial_id(name: str) -> str:
    """The `jobId` of a trial; `name` is letters and digits that no other one has."""
    return f"{_BEGIN}{name}"


def is_trial(job_key: str, parent_job: str | None) -> bool:
    """Whether a job is a trial: by its id and its parent."""
    return parent_job == TRIALS and read_job_key(job_key)[1].startswith(_BEGIN)
