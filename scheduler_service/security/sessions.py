"""Sessions of the console: a caller under a seal, which every node can read and none has to keep."""

import base64
import hmac
from hashlib import sha256

import msgspec

from scheduler_service.security.callers import Role

SESSION_MS = 12 * 3_600_000
"""After so long a browser signs in again."""
LONGEST = 1_024
"""A longer text is no session; nothing of it is read."""
_VERSION = "1"
_PURPOSE = b"punctual session 1"


class Session(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Who signed in: what a caller is, until `expires` (ms since 1970)."""

    tenant: str
    role: Role
    name: str
    expires: int


class SessionSeal:
    """Writes and reads sessions under a key that is derived from the service's key.

    So a session holds on every node and over a restart, and ends when the key is changed. It cannot be taken
    back before its end: there is no list of sessions.
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
