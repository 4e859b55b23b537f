"""The keys of callers in the memory of a process: made, looked up, ended (SPEC section 14)."""

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256

from msgspec.structs import replace

from scheduler_service.domain.audit_acts import fold_name
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import OF_SETTINGS, AccessKey, Role, read_key, write_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.pacing.slices import rest_until_tick
from scheduler_service.pacing.table_follower import Follower
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_tables import KeyTable, Mark
from scheduler_service.security.callers import Caller, Session, SessionSeal

_PROOF = b"punctual session 2"
DIGEST = 32
NOTED_MS = 60_000
"""The last use of a key is written once in so much time."""
MOST_KEYS = 1_000
"""So many living keys one tenant may have."""
SECRET_BYTES = 32
MOST_ENDED = 500
"""So many sessions of a key that were signed out are known; of more, those that were so first begin again."""
_NOBODY = AccessKey(
    key_id="", tenant="", name="", role=Role.VIEWER, digest=bytes(32), created_at=0, created_by=""
)


FindBeside = Callable[[], AccessKey | None]


class OverlapRunsError(PunctualError):
    """The key has two texts already: one more would end the first before its promised moment."""


class KeyRing(Follower):
    """All keys of `table`, so that no request waits for a database.

    What is made here counts at once, what other processes make or revoke within a second; so do the ends of
    keys. While the table cannot be read, the keys that were read last are valid: `on_trouble` is told why,
    and with None when it can be read again. Between two looks it `rests` for so many seconds of real time,
    however `clock` goes. `is_equal` takes the same time whatever it compares. Moments are wall ms.
    """

    def __init__(
        self,
        *,
        table: KeyTable,
        clock: Clock,
        on_trouble: Callable[[str | None], None] = lambda _: None,
        rest: Callable[[float], Awaitable[None]] = rest_until_tick,
        is_equal: Callable[[bytes, bytes], bool] = hmac.compare_digest,
    ) -> None:
        super().__init__(mark=table.mark, on_trouble=on_trouble, rest=rest)
        self._table = table
        self._clock = clock
        self._is_equal = is_equal
        self._keys: dict[str, AccessKey] = {}
        self._uses: dict[str, int] = {}
        self._watches: dict[asyncio.Timeout, Caller] = {}

    async def _read_table(self) -> Mark:
        mark, keys = await self._table.keys()
        self._keys = {key.key_id: key for key in keys}
        self._end_watches()
        return mark

    async def stop(self) -> None:
        """Ends, and notes the last uses; those that cannot be written are lost."""
        await super().stop()
        await asyncio.gather(self._note_uses(self._uses), return_exceptions=True)

    async def look(self) -> None:
        """Reads what has changed, and ends what waits under keys that are over. Raises StoreUnavailable."""
        await super().look()
        self._end_watches()
        now = self._clock.now().wall
        if due := {name: at for name, at in self._uses.items() if self._must_note(name, now)}:
            await self._note_uses(due)

    @property
    def is_used(self) -> bool:
        """Whether there ever was a key: callers need one from then on, also when the last one has ended."""
        return len(self._keys) > (OF_SETTINGS in self._keys)

    def find(self, text: str) -> AccessKey | None:
        """The living key with this text; its use is noted. How long it takes says nothing of any key.

        Of the secret before the last rotation: the key as it was before that, in its `rotations`.
        """
        parts = read_key(text)
        if parts is None:
            return None
        key_id, secret = parts
        digest, now = sha256(secret.encode()).digest(), self._clock.now().wall
        key = self._keys.get(key_id, _NOBODY)
        earlier = key.earlier if key.has_earlier(now) else _NOBODY.digest
        # Both are compared, whichever fits.
        is_present = self._is_equal(digest, key.digest[:DIGEST])
        is_earlier = self._is_equal(digest, earlier[:DIGEST])
        if not (is_present or is_earlier) or key is _NOBODY or not key.lives(now):
            return None
        self._uses[key_id] = now
        return key if is_present else replace(key, rotations=key.rotations - 1)

    def get(self, key_id: str, rotations: int) -> AccessKey | None:
        """The living key of a session that began after so many rotations, while that secret is valid."""
        key, now = self._keys.get(key_id), self._clock.now().wall
        if key is None or not key.lives(now):
            return None
        is_valid = rotations == key.rotations or (rotations == key.rotations - 1 and key.has_earlier(now))
        return key if is_valid else None

    def write_session(self, text: str, session: Session) -> str:
        """The text of a session that was opened with the key `text`: every process with the table reads it.

        It holds nothing from which the key is found; and whoever has the table cannot write one, nor whoever
        has one prolong it.
        """
        key_id, secret = read_key(text) or ("", "")
        return f"{key_id}.{_seal(digest_of(secret)).write(replace(session, proof=proof_of(secret)))}"

    def read_session(self, text: str) -> tuple[AccessKey, int] | None:
        """The key of a session in a text of `write_session`, as `find` gives it, and when the session ends.

        None for any other text, and where the session, its key or the secret is over.
        """
        key_id, _, sealed = text.partition(".")
        key, now = self._keys.get(key_id), self._clock.now().wall
        for digest in () if key is None else (key.digest, key.earlier):
            session = _seal(digest).read(sealed, now=now)
            if session is not None and self._is_equal(sha256(session.proof).digest(), digest[DIGEST:]):
                if (living := self.get(key_id, session.rotations)) is None:
                    return None
                if self.has_ended(key_id, digest_session(text)):
                    return None
                return replace(living, rotations=session.rotations), session.expires
        return None

    def has_ended(self, key_id: str, session: str) -> bool:
        """Whether the session with this digest was signed out; `key_id` empty: of the key in the settings."""
        key = self._keys.get(key_id or OF_SETTINGS)
        return key is not None and any(ended == session for ended, _ in key.ended)

    async def end_session(self, key_id: str, session: str, expires: int) -> None:
        """Ends the session with this digest for all processes, as a revocation ends a key.

        `key_id` empty: it is one of the key in the settings. `expires`: when it ends anyway. Raises
        StoreUnavailable.
        """

        def change(key: AccessKey, now: int) -> AccessKey:
            lasting = (known for known in key.ended if known[1] > now)
            return replace(key, ended=(*lasting, (session, expires))[-MOST_ENDED:])

        if not key_id and OF_SETTINGS not in self._keys:
            await self._add_of_settings()
        await self._change(key_id or OF_SETTINGS, change)

    def list(self, tenant: str) -> Sequence[AccessKey]:
        """The keys of a tenant in order of creation, revoked and expired ones too."""
        own = (key for key in self._keys.values() if key.tenant == tenant and key.key_id != OF_SETTINGS)
        return [self._seen(key) for key in own]

    def read(self, key_id: str) -> AccessKey | None:
        """One key of any tenant, or None."""
        key = self._keys.get(key_id)
        return None if key is None or key_id == OF_SETTINGS else self._seen(key)

    def is_full(self, tenant: str) -> bool:
        """Whether a tenant has as many living keys as it may."""
        now = self._clock.now().wall
        return sum(key.tenant == tenant and key.lives(now) for key in self._keys.values()) >= MOST_KEYS

    def tenant_like(self, tenant: str) -> str | None:
        """A known tenant whose name differs by case alone; None: there is none, or it is known itself."""
        known = {DEFAULT_TENANT, *(key.tenant for key in self._keys.values())}
        folded = tenant.casefold()
        return None if tenant in known else next((one for one in known if one.casefold() == folded), None)

    def named_like(self, key: AccessKey) -> AccessKey | None:
        """A living key of the same tenant whose name people read as that of `key`; None: there is none."""
        now, name = self._clock.now().wall, fold_name(key.name)
        own = (one for one in self._keys.values() if one.tenant == key.tenant and one.lives(now))
        return next((one for one in own if fold_name(one.name) == name), None)

    async def create(self, key: AccessKey) -> tuple[AccessKey, str]:
        """Stores `key` under a new id and secret; the key, and its text, which nobody can read again.

        Raises StoreUnavailable.
        """
        made, text = new_key(key)
        await self._table.add(made)
        await self._take(made)
        return made, text

    async def revoke(self, key_id: str, find_beside: FindBeside = lambda: None) -> AccessKey | None:
        """Ends a key for good, at once; None: there is no such key. Raises StoreUnavailable.

        It ends as long as the key is there that `find_beside` finds among the present ones, None: whatever
        there is; what that raises is raised.
        """
        if self.read(key_id) is None:
            return None
        return await self._change(
            key_id, lambda key, now: key if key.revoked_at else revoked(key, now), find_beside
        )

    async def rotate(self, key_id: str, overlap: int) -> tuple[AccessKey, str] | None:
        """Gives a living key a new secret; the old one is valid for `overlap` ms more.

        The key and its new text; None: there is no living key. Raises OverlapRunsError where `overlap` is
        wanted while an earlier one runs, which it would cut; StoreUnavailable.
        """
        text = ""

        def change(key: AccessKey, now: int) -> AccessKey | None:
            nonlocal text
            if not key.lives(now):
                return None
            if overlap and key.earlier and now < key.earlier_until:
                end = rfc3339(key.earlier_until)
                raise OverlapRunsError(
                    f"the text of the key {key_id} before this one is valid until {end}; "
                    "wait until then, or rotate without an overlap, which ends all earlier texts at once"
                )
            changed, text = rotated(key, now, overlap)
            return changed

        key = await self._change(key_id, change)
        return None if key is None else (key, text)

    @asynccontextmanager
    async def watching(self, caller: Caller) -> AsyncIterator[None]:
        """What waits inside ends with TimeoutError within a second of the end of the caller's key, of its
        secret or of its session."""
        async with asyncio.timeout(None) as limit:
            self._watches[limit] = caller
            try:
                yield
            finally:
                del self._watches[limit]

    async def _change(
        self,
        key_id: str,
        change: Callable[[AccessKey, int], AccessKey | None],
        find_beside: FindBeside = lambda: None,
    ) -> AccessKey | None:
        while True:
            key = self._keys.get(key_id)
            if key is None:
                return None
            changed = change(key, self._clock.now().wall)
            if changed is None or changed is key:
                return changed
            beside = find_beside()
            stored = self._table.replace(changed) if beside is None else self._table.revoke(changed, beside)
            if await stored:
                changed = replace(changed, version=changed.version + 1)
                await self._take(changed)
                return changed
            await self.load()  # somebody else was earlier

    async def _add_of_settings(self) -> None:
        """The row of the key in the settings, which no text finds: it is born revoked."""
        fresh = replace(_NOBODY, key_id=OF_SETTINGS, digest=bytes(2 * DIGEST), revoked_at=1)
        try:
            await self._table.add(fresh)
        except StoreUnavailable:
            await self.load()
            if OF_SETTINGS not in self._keys:  # else another process was earlier
                raise
        else:
            await self._take(fresh)

    async def _take(self, key: AccessKey) -> None:
        """Has what was written before anybody is told of it; the next look reads what others wrote."""
        async with self._reading:
            known = self._keys.get(key.key_id)
            if known is None or known.version < key.version:
                self._keys[key.key_id] = key
        self._end_watches()

    def _end_watches(self) -> None:
        for limit, caller in self._watches.items():
            if self.is_over(caller) and not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    def is_over(self, caller: Caller) -> bool:
        """Whether the key or session of a caller has ended; of one without either, whether there is a key."""
        if caller.key_id and self.get(caller.key_id, caller.rotations) is None:
            return True
        session = caller.session
        if not (caller.key_id or session):  # let in while nobody had a key
            return self.is_used
        return bool(session) and (
            self._clock.now().wall >= caller.session_end or self.has_ended(caller.key_id, session)
        )

    def _must_note(self, key_id: str, now: int) -> bool:
        key = self._keys.get(key_id)
        noted = None if key is None else key.last_used_at
        return noted is None or now - noted >= NOTED_MS

    async def _note_uses(self, uses: dict[str, int]) -> None:
        if not uses:
            return
        await self._table.note_uses(uses)
        for key_id, at in uses.items():
            if (key := self._keys.get(key_id)) is not None:
                self._keys[key_id] = replace(key, last_used_at=at)
            if self._uses.get(key_id) == at:
                del self._uses[key_id]

    def _seen(self, key: AccessKey) -> AccessKey:
        at = self._uses.get(key.key_id)
        return key if at is None else replace(key, last_used_at=at)


def digest_of(secret: str) -> bytes:
    """What is stored of a secret: its digest, and that of its proof."""
    return sha256(secret.encode()).digest() + sha256(proof_of(secret)).digest()


def proof_of(secret: str) -> bytes:
    """What shows in a session that its opener had the secret, and does not give it away."""
    return hmac.digest(secret.encode(), _PROOF, sha256)


def digest_session(text: str) -> str:
    """By what a session is known among those that were ended."""
    return sha256(text.encode()).hexdigest()[:32]


def _seal(digest: bytes) -> SessionSeal:
    return SessionSeal(key=digest[:DIGEST])


def new_key(key: AccessKey) -> tuple[AccessKey, str]:
    """`key` under a new id and secret, and its text."""
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(SECRET_BYTES)
    return replace(key, key_id=key_id, digest=digest_of(secret)), write_key(key_id, secret)


def rotated(key: AccessKey, now: int, overlap: int) -> tuple[AccessKey, str]:
    """`key` with a new secret, and its text; the secret before is valid for `overlap` ms more."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    changed = replace(
        key,
        digest=digest_of(secret),
        earlier=key.digest if overlap else b"",
        earlier_until=now + overlap if overlap else 0,
        rotations=key.rotations + 1,
    )
    return changed, write_key(key.key_id, secret)


def revoked(key: AccessKey, now: int) -> AccessKey:
    """`key`, ended at `now`."""
    return replace(key, revoked_at=now)
