"""Verifies signed requests and notifications (SPEC section 14; Standard Webhooks, HMAC-SHA256)."""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping

from client_sdk.errors import SignatureRefused

PREFIX = "whsec_"
VERSION = "v1"
SHORTEST, LONGEST = 24, 64
MOST = 2
"""So many secrets at once: the one that is in use, and the one that follows or leaves."""
TOLERANCE = 300.0


class Verifier:
    """Tells whether a request was signed by one of `secrets`, now. At most two, so that one can be replaced.

    A secret is `whsec_` and base64, or base64, of 24 to 64 bytes. `tolerance`: so many seconds the moment of
    the signature may lie before or after `clock`, which counts from the Unix epoch. Raises ValueError for
    secrets that are none; they are never shown.
    """

    def __init__(
        self, *secrets: str, tolerance: float = TOLERANCE, clock: Callable[[], float] = time.time
    ) -> None:
        if not 1 <= len(secrets) <= MOST:
            raise ValueError(f"{len(secrets)} secrets: give one, or two while one replaces the other")
        self._secrets = tuple(read_secret(secret) for secret in secrets)
        self._tolerance = tolerance
        self._clock = clock

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """The `webhook-id` of a request that is well signed; `body` is what came, byte by byte.

        Header names may be in any case. Raises SignatureRefused: what is wrong, never what is right.
        """
        named = {name.lower(): value for name, value in headers.items()}
        message_id, moment, signatures = (
            named.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
        )
        if not (message_id and moment and signatures):
            raise SignatureRefused("not signed: send webhook-id, webhook-timestamp, webhook-signature")
        self._check_moment(moment)
        signed = f"{message_id}.{moment}.".encode() + body
        expected = [_sign(secret, signed) for secret in self._secrets]
        if not _any_equal(_read_signatures(signatures), expected):
            raise SignatureRefused("the signature does not hold: another secret, or the request was changed")
        return message_id

    def _check_moment(self, moment: str) -> None:
        if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
            raise SignatureRefused("webhook-timestamp is no moment: seconds since 1970 are expected")
        away = self._clock() - int(moment)
        if abs(away) > self._tolerance:
            word = "old" if away > 0 else "new"
            raise SignatureRefused(
                f"the signature is too {word}, by {abs(away) - self._tolerance:.0f} s: compare the clocks"
            )


def read_secret(text: str) -> bytes:
    """The bytes of a secret. Raises ValueError without showing it."""
    encoded = text.removeprefix(PREFIX)
    try:
        secret = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a secret is no base64 behind {PREFIX}, or alone: copy it again") from None
    if not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"a secret has {len(secret)} bytes: {SHORTEST} to {LONGEST} are expected")
    return secret


def _sign(secret: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, signed, hashlib.sha256).digest()


def _read_signatures(text: str) -> list[bytes]:
    """Those of our version; what is not base64 counts as none."""
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
    """Each is compared with each, in a time that tells nothing."""
    found = False
    for one in given:
        for other in expected:
            found |= hmac.compare_digest(one, other)
    return found
