"""Keys of callers and their roles: what each may do, for whom, and how long (SPEC section 14)."""

import re
from enum import StrEnum
from typing import Final

import msgspec

PREFIX: Final = "pk_"
"""Every key begins with it, so that scanners of repositories and logs find one."""
OF_SETTINGS: Final = "server.key"
"""The row of the key in the settings among those of callers: no key, it has the sessions that were ended."""
LONGEST: Final = 100
"""A longer text is no key of this form; nothing of it is read."""
_FORM = re.compile(r"pk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


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


class AccessKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it is stored: its secret is known by the `digest` alone. Moments are wall ms.

    `digest`: the SHA-256 of the secret, and that of what shows it in a session (`security.key_ring`).

    `service`: it is that of a service, and sees what is that service's alone; None: of people. `labels`
    (`NAME:VALUE`): it sees jobs that have all of these alone. After a rotation `earlier` is the digest of the
    secret before, which is valid until `earlier_until`; `rotations` counts them. `version` counts changes.
    `ended`: the sessions that were signed out, by a digest, each with the moment at which it ends anyway.
    """

    key_id: str
    tenant: str
    name: str
    role: Role
    digest: bytes
    created_at: int
    created_by: str
    service: str | None = None
    labels: tuple[str, ...] = ()
    earlier: bytes = b""
    earlier_until: int = 0
    expires_at: int | None = None
    last_used_at: int | None = None
    revoked_at: int | None = None
    rotations: int = 0
    version: int = 1
    ended: tuple[tuple[str, int], ...] = ()

    def lives(self, now: int) -> bool:
        """Whether it is valid at `now`: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def has_earlier(self, now: int) -> bool:
        """Whether the secret before the last rotation is still valid."""
        return bool(self.earlier) and now < self.earlier_until


def write_key(key_id: str, secret: str) -> str:
    """The text of a key, as its owner gets it: `pk_ID_SECRET`, an id of 16 hex digits."""
    return f"{PREFIX}{key_id}_{secret}"


def read_key(text: str) -> tuple[str, str] | None:
    """The id and the secret in the text of a key; None: it is no such text."""
    found = _FORM.fullmatch(text) if len(text) <= LONGEST else None
    return None if found is None else (found[1], found[2])


def id_in(text: str) -> str:
    """The id of a key, where somebody has pasted its whole text, too."""
    return (read_key(text) or (text,))[0]
