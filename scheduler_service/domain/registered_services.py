"""A service as it is registered, and the jobs that it declares (SPEC sections 11 and 13)."""

from enum import StrEnum

import msgspec

from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import DAY, SECOND

GRACE = DAY
"""In ms: how long a job that is no longer declared stays paused before it is destroyed."""
InstancePlace = tuple[str, str, str]
"""Where an instance stands in the registry: tenant, service, instance."""


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """At most `count` requests within `per` ms."""

    count: int
    per: int = SECOND


SILENT, LEFT, UNKNOWN = "silent", "left", "unknown"
"""How an instance was lost: no heartbeat came, it deregistered, or it never registered with this process."""


class Loss(msgspec.Struct, frozen=True, gc=False):
    """That an instance is lost: `how`, and since when nothing was heard of it (wall ms).

    With `UNKNOWN`, `since` is the start of the process that waited for its registration.
    """

    how: str
    since: int


class Kind(StrEnum):
    """What can be paused: claims from a queue, or requests to a service."""

    QUEUE = "queue"
    SERVICE = "service"


class Pause(msgspec.Struct, frozen=True, gc=False):
    """That the queue or the service of this name is paused `since` a moment (steady ms)."""

    kind: Kind
    tenant: str
    name: str
    since: int


class Service(msgspec.Struct, frozen=True):
    """A service as it is registered; `address`, `route` and `tags` are defaults of its steps.

    `keeps`: the stored definition of a job wins over a changed declaration (`onChange: keep`). `grace` is in
    ms. `digest` is that of the declared timers; empty: none was declared yet. `removed_at` (wall ms): when it
    was removed; it stays until its jobs are gone. `signing`: the secret that signs its calls; empty: none.
    `options`: those that it gives its jobs, a JSON object; None: none. `vouched`: whether `address` may be
    private, as its own key or that of the settings registered it (SPEC section 9); None: an earlier version
    registered it, and it may be where the settings have a key.
    """

    tenant: str
    name: str
    address: str | None = None
    route: str | None = None
    tags: tuple[str, ...] = ()
    keeps: bool = False
    grace: int = GRACE
    rate_limit: RateLimit | None = None
    digest: bytes = b""
    created_at: int = 0
    updated_at: int = 0
    removed_at: int | None = None
    signing: str = ""
    options: str | None = None
    vouched: bool | None = None

    @property
    def options_of_jobs(self) -> bytes:
        """`options` as the definitions of its jobs have them, with its name; empty: there are none."""
        return (
            b'{"service":"%s",%s' % (self.name.encode(), self.options[1:].encode()) if self.options else b""
        )


class Applied(msgspec.Struct, frozen=True, gc=False):
    """How one declaration was applied: `digest` is the declaration behind `uid` and `revision`.

    `removed_at` (wall ms): since when it is no longer declared; `paused`: the service paused it for that
    reason. `finished`: it was seen finished, so that it does not count as lost when it is gone.
    """

    tenant: str
    service: str
    job_id: str
    digest: bytes
    uid: str
    revision: int
    removed_at: int | None = None
    paused: bool = False
    finished: bool = False

    @property
    def job_key(self) -> str:
        """The key of the job in the service's tenant."""
        return write_job_key(self.tenant, self.job_id)
