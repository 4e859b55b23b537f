"""Who sends a request (SPEC section 14): callers, and their sessions of the console."""

import base64
import hmac
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from scheduler_service.domain.keys_and_roles import Role as Role

LONGEST = 1_024
"""A longer text is no session; nothing of it is read."""
_VERSION = "1"
_PURPOSE = b"punctual session 1"


class Caller(msgspec.Struct, frozen=True, gc=False):
    """The sender of a request. `service` None: not a service, so all jobs of the tenant are visible.

    `name` is that of its key; without keys that of this machine's user. It is the creator of jobs whose
    definition names none (SPEC section 2). `key_id` is empty for the key of the settings, and without keys;
    `is_operator`: it has the former. `labels` (`NAME:VALUE`): jobs that have all of these alone are visible.
    `rotations`: those of the key before its secret that the caller has. `session`: a digest of the session
    in which it asks, which lasts until `session_end` (ms since 1970); empty: it asks with the key itself.
    """

    tenant: str
    role: Role
    service: str | None = None
    name: str = ""
    key_id: str = ""
    labels: tuple[str, ...] = ()
    rotations: int = 0
    is_operator: bool = False
    session: str = ""
    session_end: int = 0

    def vouches_for(self, service: str) -> bool:
        """Whether an address that it registers for this service may be private (SPEC section 9).

        The key of the service does, and that of the settings; no role does, as its holder could reach by a
        service what the egress policy keeps from jobs.
        """
        return self.is_operator or self.service == service

    @property
    def is_narrow(self) -> bool:
        """Whether it sees a part of its tenant alone."""
        return self.service is not None or bool(self.labels)

    def covers(self, creator: str, labels: Mapping[str, str]) -> bool:
        """Whether it sees a job of its tenant with this creator and these labels.

        The jobs of a service are those whose creator it is: those that it declares, or makes with its key.
        """
        if self.service is not None and creator != self.service:
            return False
        wanted = (label.partition(":") for label in self.labels)
        return all(labels.get(name) == value for name, _, value in wanted)


class Session(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who signed in: what a caller is, until `expires` (ms since 1970).

    `key_id` is the key with which the session was opened, after so many `rotations`; empty: that of the
    settings. `proof`: what its owner alone can have made of the secret.
    """

    tenant: str
    role: Role
    name: str
    expires: int
    key_id: str = ""
    rotations: int = 0
    proof: bytes = b""


class SessionSeal:
    """Writes and reads sessions under a key that is derived from `key`.

    That is one that all processes know, so that a session holds on every node and over a restart, and ends
    when the key is changed. There is no list of sessions.
    """

    def __init__(self, *, key: bytes) -> None:
        self._key = hmac.digest(key, _PURPOSE, sha256)

    def write(self, session: Session) -> str:
        """The text for a cookie: letters, digits, `-`, `_` and `.`."""
        payload = f"{_VERSION}.{_base64(msgspec.json.encode(session))}"
        return f"{payload}.{self._sign(payload)}"

    def read(self, text: str, *, now: int) -> Session | None:
        """The session, as long as it lasts; None for any text that was not written under this key."""
        if len(text) > LONGEST or not text.isascii():
            return None
        payload, _, signature = text.rpartition(".")
        # Nothing of the text is read before its signature is known to be ours.
        if not hmac.compare_digest(signature, self._sign(payload)):
            return None
        version, _, body = payload.partition(".")
        if version != _VERSION:
            return None
        session = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Session)
        return session if now < session.expires else None

    def _sign(self, payload: str) -> str:
        return _base64(hmac.digest(self._key, payload.encode(), sha256))


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
