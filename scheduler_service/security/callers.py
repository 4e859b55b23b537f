"""Who sends a request: the tenant whose data it concerns, and what it may do (SPEC section 14)."""

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """What a caller may do. Each role may also do everything that the roles before it may.

    A viewer reads; an operator triggers, cancels, replays and pauses; an editor creates, updates and
    destroys; an admin manages keys and settings.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"

    def includes(self, needed: "Role") -> bool:
        """Whether a caller of this role may do what needs `needed`."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {role: rank for rank, role in enumerate(Role)}


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The sender of a request. `service` None: not a service, so all jobs of the tenant are visible.

    `name` is that of its key; without keys that of this machine's user. It is the creator of jobs whose
    definition names none (SPEC section 2).
    """

    tenant: str
    role: Role
    service: str | None = None
    name: str = ""
