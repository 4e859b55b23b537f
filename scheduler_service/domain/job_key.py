"""The key of a job: the id of its actor, under which its state is stored (SPEC section 2).

Every part of the scheduler behind the API names a job by its key; a `jobId` is unique within a tenant only.
"""

from typing import Final

DEFAULT_TENANT: Final = "default"
_SEPARATOR = "|"  # not allowed in a jobId


def write_job_key(tenant: str, job_id: str) -> str:
    """The key of a tenant's job: `jobId` in the tenant `default`, else `tenant|jobId`."""
    return job_id if tenant == DEFAULT_TENANT else f"{tenant}{_SEPARATOR}{job_id}"


def read_job_key(key: str) -> tuple[str, str]:
    """The tenant and the `jobId` of a key."""
    tenant, separator, job_id = key.rpartition(_SEPARATOR)
    return (tenant, job_id) if separator else (DEFAULT_TENANT, key)
