"""Signs and verifies requests and notifications (SPEC section 14; Standard Webhooks, HMAC-SHA256)."""

import base64
import binascii
import hashlib
import hmac
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from client_sdk.errors import SignatureRefused

PREFIX = "whsec_"
VERSION = "v1"
SHORTEST, LONGEST = 24, 64
MAX_SECRETS = 2
"""The secret in use, and one that replaces it or that it has replaced."""
TOLERANCE_SECONDS = 300.0
SHORT_BYTES = 65_536
MOST_REPLAYS = 100_000
"""So many requests a verifier remembers, unless it is told otherwise: 20 MB."""
_TIME_IN_ID = re.compile(r"\.\d{10,12}(?:\.|$)", re.ASCII)
"""A part of an id that may be a time: the id `a.1700000000` is signed as `a`, that time and a longer body."""
ID, TIMESTAMP, SIGNATURE = HEADERS = "webhook-id", "webhook-timestamp", "webhook-signature"
_KEY = "idempotency-key"


def id_to_sign(headers: Iterable[tuple[str, str]]) -> str:
    """The id that is signed: the request's own `webhook-id`, else its `Idempotency-Key`.

    Without the blanks around it, as receivers take it. Raises ValueError: there is none, or not in ASCII.
    """
    named = {name.lower(): value for name, value in headers}
    message_id = (named.get(ID) or named.get(_KEY) or "").strip(" \t")
    if not message_id:
        raise ValueError("the request has no Idempotency-Key, which is the id that is signed; give it one")
    if not message_id.isascii():  # many receivers read headers as Latin-1, and would find another id
        name = ID if named.get(ID) else "Idempotency-Key"
        raise ValueError(
            f"the {name} {message_id[:128]!r}, which is the id that is signed, has characters outside "
            "ASCII, which receivers read differently; give the request another one"
        )
    return message_id


class Signer:
    """Signs with one secret, or with two while one replaces the other: then each signs, the first one first.

    What is signed twice under one id never has the same time: else a receiver would take the second one,
    a genuine repetition, for a replay. So the time may be some seconds ahead of `clock`, which counts from
    the Unix epoch. `ahead`: it is never less than so many seconds after the start of this signer, as one that
    has just ended may have signed the same. One signer may be used by many threads and with any ids.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, ahead: int = 0) -> None:
        self._clock = clock
        self._ahead, self._first = ahead, int(clock()) + ahead
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._swept = 0

    def sign(self, keys: Sequence[bytes], message_id: str, body: bytes | None) -> tuple[tuple[str, str], ...]:
        """The three headers of a request with this `body`; `keys` are those of `read_keys`."""
        moment = str(self._choose_moment(message_id))
        signed = begin(message_id, moment)
        signatures = " ".join(
            f"{VERSION},{base64.b64encode(mac(key, signed, body or b'')).decode()}" for key in keys
        )
        return (ID, message_id), (TIMESTAMP, moment), (SIGNATURE, signatures)

    def _choose_moment(self, message_id: str) -> int:
        with self._lock:
            now = int(self._clock())
            if now > self._swept:  # what was signed before can get no time again that it had
                self._last = {one: moment for one, moment in self._last.items() if moment >= now}
            elif now < self._swept - TOLERANCE_SECONDS:
                self._last.clear()  # the clock was set back: receivers would refuse what goes on from there
            self._swept = now
            moment = max(now, min(self._first, now + self._ahead), self._last.get(message_id, 0) + 1)
            self._last[message_id] = moment
            return moment


class Verifier:
    """Verifies that a request was signed with one of `secrets`, now. Two, while one replaces the other.

    A secret is base64 of 24 to 64 bytes, with or without `whsec_` before it. `tolerance`: how many seconds
    the time of the signature may differ from `clock`, which counts from the Unix epoch. `replays`: so many
    accepted requests are remembered; where more come within the tolerance, it shrinks to the time of those
    that are. Raises ValueError for invalid secrets, without showing them.
    """

    def __init__(
        self,
        *secrets: str,
        tolerance: float = TOLERANCE_SECONDS,
        clock: Callable[[], float] = time.time,
        replays: int = MOST_REPLAYS,
    ) -> None:
        self._keys = read_keys(secrets)
        self._tolerance = tolerance
        self._clock = clock
        self._seen = SeenRequests(most=replays)

    def accept(self, headers: Mapping[str, str], body: bytes) -> str:
        """The `webhook-id` of a request with a valid signature that comes for the first time.

        One that is sent again by its signer is another request: it has the same id and a time of its own.
        Whoever calls this more than once for a request refuses it. Raises SignatureRefused, as `verify`.
        """
        message_id, moment, own = self._check(headers, body)
        if not self._seen.add(moment, own, oldest=self._clock() - self._tolerance):
            raise SignatureRefused("the request was accepted before: it is replayed")
        return message_id

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """The `webhook-id` of a request with a valid signature; `body` is the raw body.

        Header names may be in any case. A request that was accepted before is not refused. Raises
        SignatureRefused, which never shows the expected signature; also for an id with a part that reads as
        a time, since what was signed can then be cut into id, time and body in two ways.
        """
        return self._check(headers, body)[0]

    def _check(self, headers: Mapping[str, str], body: bytes) -> tuple[str, int, bytes]:
        """Id, time, and what the first secret makes of the request, whatever signatures it brings."""
        named = {name.lower(): value for name, value in headers.items()}
        message_id, moment, signatures = (named.get(name, "") for name in HEADERS)
        if not (message_id and moment and signatures):
            raise SignatureRefused(f"not signed: send {', '.join(HEADERS)}")
        self._check_moment(moment)
        if _TIME_IN_ID.search(message_id):
            raise SignatureRefused(
                "webhook-id has a part that reads as a time, so that what was signed is not clear: give the "
                "step another Idempotency-Key"
            )
        signed = begin(message_id, moment)
        expected = [mac(key, signed, body) for key in self._keys]
        if not _any_equal(_read_signatures(signatures), expected):
            raise SignatureRefused(
                "the signature is not valid: another secret was used, or the request was changed"
            )
        return message_id, int(moment), expected[0]

    def _check_moment(self, moment: str) -> None:
        if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
            raise SignatureRefused("webhook-timestamp is not a time: seconds since 1970 are expected")
        away = self._clock() - int(moment)
        if abs(away) > self._tolerance:
            word = "old" if away > 0 else "new"
            raise SignatureRefused(
                f"the signature is too {word}, by {abs(away) - self._tolerance:.0f} s: compare the clocks"
            )


class SeenRequests:
    """What was accepted, by its time, as long as that is within the tolerance; at most `most`.

    Where there are more, the oldest ones are forgotten, and whatever is not newer is refused from then on.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._by_moment: dict[int, set[bytes]] = {}
        self._count = 0
        self._floor = 0
        self._lock = threading.Lock()

    def add(self, moment: int, request: bytes, *, oldest: float) -> bool:
        """Remembers a request; False: it is known, or too old to know it. Drops what is before `oldest`."""
        with self._lock:
            if moment <= self._floor or request in self._by_moment.get(moment, ()):
                return False
            for one in [one for one in self._by_moment if one < oldest]:
                self._drop(one)
            if self._count >= self._most and min(self._by_moment) < moment:
                self._floor = min(self._by_moment)
                self._drop(self._floor)
            self._by_moment.setdefault(moment, set()).add(request)
            self._count += 1
            return True

    def _drop(self, moment: int) -> None:
        self._count -= len(self._by_moment.pop(moment))


def read_keys(secrets: Sequence[str]) -> tuple[bytes, ...]:
    """The bytes of secrets, which are one or two. Raises ValueError, without showing them."""
    if not 1 <= len(secrets) <= MAX_SECRETS:
        raise ValueError(f"{len(secrets)} secrets: give one, or two while one replaces the other")
    return tuple([read_secret(secret) for secret in secrets])


def read_named(name: str, secrets: Sequence[str]) -> tuple[bytes, ...]:
    """The bytes of the secrets of that name. Raises ValueError: why they cannot sign, not what they are."""
    if not secrets:
        raise ValueError(f"sign names no secret: there is no {name[:128]!r}; add it, or correct the name")
    try:
        return read_keys(secrets)
    except ValueError as error:
        raise ValueError(f"the secret {name[:128]!r} cannot sign: {error}") from None


def read_secret(text: str) -> bytes:
    """The bytes of a secret. Raises ValueError, without showing the secret."""
    encoded = text.removeprefix(PREFIX)
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is not base64, after {PREFIX} or alone: copy it again") from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"a secret has {len(secret)} bytes: {SHORTEST} to {LONGEST} are expected")
    return secret


def begin(message_id: str, moment: str) -> bytes:
    """What is signed before the body."""
    return f"{message_id}.{moment}.".encode("utf-8", "surrogatepass")


def mac(key: bytes, begin: bytes, body: bytes) -> bytes:
    """The HMAC of `begin` and `body`, which is not copied where it is long."""
    if len(body) <= SHORT_BYTES:
        return hmac.digest(key, begin + body, "sha256")
    made = hmac.new(key, begin, hashlib.sha256)
    made.update(body)
    return made.digest()


def _read_signatures(text: str) -> list[bytes]:
    """The signatures of version v1; those that are not base64 are ignored."""
    found = []
    for one in text.split(" "):
        version, comma, encoded = one.partition(",")
        if version == VERSION and comma:
            try:
                found.append(base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError):
                continue
    return found


def _any_equal(given: list[bytes], expected: list[bytes]) -> bool:
    """Compares each with each, in constant time."""
    found = False
    for one in given:
        for other in expected:
            found |= hmac.compare_digest(one, other)
    return found
