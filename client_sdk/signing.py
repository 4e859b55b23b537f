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
MAX_SECRETS = 2
"""The secret in use, and one that replaces it or that it has replaced."""
TOLERANCE_SECONDS = 300.0


class Verifier:
    """Verifies that a request was signed with one of `secrets`, now. Two, while one replaces the other.

    A secret is base64 of 24 to 64 bytes, with or without `whsec_` before it. `tolerance`: how many seconds
    the time of the signature may differ from `clock`, which counts from the Unix epoch. Raises ValueError for
    invalid secrets, without showing them.
    """

    def __init__(
        self, *secrets: str, tolerance: float = TOLERANCE_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        if not 1 <= len(secrets) <= MAX_SECRETS:
            raise ValueError(f"{len(secrets)} secrets: give one, or two while one replaces the other")
        self._secrets = tuple(read_secret(secret) for secret in secrets)
        self._tolerance = tolerance
        self._clock = clock

    def verify(self, headers: Mapping[str, str], body: bytes) -> str:
        """The `webhook-id` of a request with a valid signature; `body` is the raw body.

        Header names may be in any case. Raises SignatureRefused, which never shows the expected signature.
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
            raise SignatureRefused(
                "the signature is not valid: another secret was used, or the request was changed"
            )
        return message_id

    def _check_moment(self, moment: str) -> None:
        if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
            raise SignatureRefused("webhook-timestamp is not a time: seconds since 1970 are expected")
        away = self._clock() - int(moment)
        if abs(away) > self._tolerance:
            word = "old" if away > 0 else "new"
            raise SignatureRefused(
                f"the signature is too {word}, by {abs(away) - self._tolerance:.0f} s: compare the clocks"
            )


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


def _sign(secret: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, signed, hashlib.sha256).digest()


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
