"""The service itself: its figures, its health, its cleaning (SPEC sections 10, 12, 14)."""

from typing import Any

from pydantic import AwareDatetime, Field

from client_sdk.models.answers.form import AnswerModel
from client_sdk.models.answers.words import HealthStatus


class Cleaned(AnswerModel):
    """How many rows were removed."""

    jobs: int
    executions: int
    notifications: int


class Statistics(AnswerModel):
    """Figures of the last hour and of the present moment.

    `missing` names the processes that do not answer: their jobs are not among those of the present moment.
    """

    due: int
    waiting: int
    running: int
    by_state: dict[str, int]
    lateness: dict[str, Any]
    per_minute: list[dict[str, Any]]
    missing: list[str] = Field([])


class NodeProcess(AnswerModel):
    """A process of a node and its shard; `state` `missing`: it starts, or does not answer.

    `missing` has `store` or `history` where it cannot write them.
    """

    shard: int
    pid: int | None = None
    state: str
    started_at: AwareDatetime | None = None
    jobs_held: int
    running: int
    loop_held_ms: int
    missing: list[str] = Field([])


class Node(AnswerModel):
    """A node as it last reported; `state` is `running`, `draining`, `cut off` or `offline`.

    `processes` and the `versions` of what it stands on are those of the node that answers; of other nodes of
    a cluster the version of Punctual alone is known. `formats` are those of the data that it keeps: `state`
    or `redis`, `history`, `cluster`; of other nodes `cluster` alone, and none of one before 0.2.0.
    """

    node_id: str
    address: str
    version: str
    state: str
    started_at: str
    last_heartbeat: str
    jobs_held: int
    running: int
    processes: list[NodeProcess] = Field([])
    versions: dict[str, str] = Field({})
    formats: dict[str, str] = Field({})


class Session(AnswerModel):
    """Who the caller is; `role` null: not known, where `needsKey`. `expiresAt` null: it has no end."""

    name: str | None
    tenant: str | None
    role: str | None
    expires_at: AwareDatetime | None
    needs_key: bool


class HealthPart(AnswerModel):
    """What a service needs for its work: `ready`, `missing`, or `troubled`, which it bears; since when.

    `missing` names what is, where the part consists of several things.
    """

    name: str
    state: str
    since: AwareDatetime
    missing: list[str] = Field([])


class Health(AnswerModel):
    """The health of the process; the loop was held for `loopHeldMs` in the last minute, at most."""

    status: HealthStatus
    version: str
    loop_held_ms: int | None = None
    parts: list[HealthPart] = Field([])
