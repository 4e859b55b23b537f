"""The key of a job: the id of its actor, under which its state is stored (SPEC section 2).

Every part of the scheduler behind the API names a job by its key; a `jobId` is unique within a tenant only.
Trials, jobs that run a definition once and are destroyed by the service itself (SPEC section 10), are known
by their key.
"""

from typing import Final

DEFAULT_TENANT: Final = "default"
TRIALS: Final = "punctual:trials"
"""The `parentJob` of all trials: by it they are found."""
SYSTEM_IDS: Final = frozenset({"check-timers", "clean", "outbox"})
"""The jobs that each scheduler has for its own work; no caller has one of these ids, in any tenant."""
ALERTS: Final = "alert."
"""What the ids of jobs that send alerts begin with; a caller's may, too."""
SEPARATOR: Final = "|"
"""Not allowed in a jobId. What is before it tells tenants apart without a call: nothing for `default`."""
_BEGIN = "trial:"


def write_job_key(tenant: str, job_id: str) -> str:
    """The key of a tenant's job: `jobId` in the tenant `default`, else `tenant|jobId`."""
    return job_id if tenant == DEFAULT_TENANT else f"{tenant}{SEPARATOR}{job_id}"


def read_job_key(key: str) -> tuple[str, str]:
    """The tenant and the `jobId` of a key."""
    tenant, separator, job_id = key.rpartition(SEPARATOR)
    return (tenant, job_id) if separator else (DEFAULT_TENANT, key)


def write_trial_id(name: str) -> str:
    """The `jobId` of a trial; `name` is letters and digits that no other one has."""
    return f"{_BEGIN}{name}"


def is_trial(job_key: str, parent_job: str | None) -> bool:
    """Whether a job is a trial: by its id and its parent."""
    return parent_job == TRIALS and read_job_key(job_key)[1].startswith(_BEGIN)
