"""What a new life of a job gets from its host: an identity, and the key of its feedback tokens."""

import secrets
import uuid
from collections.abc import Callable

KEY_BYTES = 32

Lives = Callable[[], tuple[str, bytes]]


def new_life() -> tuple[str, bytes]:
    """A uid (32 hex digits) that no other life has, and a random key (SPEC section 5)."""
    return uuid.uuid4().hex, secrets.token_bytes(KEY_BYTES)
