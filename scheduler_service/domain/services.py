"""What a service says of itself, and what became of the jobs that it declares (SPEC sections 11, 13)."""

import msgspec

from scheduler_service.domain.moments import DAY, SECOND

GRACE = DAY
"""In ms: so long a job that is declared no more stays paused before it is destroyed."""


class RateLimit(msgspec.Struct, frozen=True, gc=False):
    """At most `count` requests within `per` ms."""

    count: int
    per: int = SECOND


class Service(msgspec.Struct, frozen=True):
    """A service as it is registered; `address`, `route` and `tags` are defaults of its steps.

    `keeps`: the stored definition of a job wins over a changed declaration (`onChange: keep`). `grace` is in
    ms. `digest` tells one list of declared timers from another; empty: none was declared yet. `removed_at`
    (wall ms): it was removed, and stays until its jobs are gone.
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


class Applied(msgspec.Struct, frozen=True, gc=False):
    """What was done about one declared job: `digest` is the declaration that `uid` and `revision` answer.

    `removed_at` (wall ms): it is declared no more since then; `paused`: we paused it for that, not a person.
    `finished`: it was seen finished, so that it is not lost when it is gone.
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
