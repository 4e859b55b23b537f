"""Requests that are signed as the scheduler signs them (Standard Webhooks)."""

import base64
import hashlib
import hmac

OLD = "whsec_" + base64.b64encode(b"old" * 8).decode()
NEW = base64.b64encode(b"new" * 8).decode()

NOW = 1_700_000_000

BODY = '{"job": "作业"}'.encode()


def sign(secret: str, *, moment: int = NOW, body: bytes = BODY, message_id: str = "life-1-0") -> str:
    """A signature as the specification writes it, by the standard library alone."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, b"%s.%d.%s" % (message_id.encode(), moment, body), hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def headers(signature: str, **changed: str) -> dict[str, str]:
    """The three headers, in mixed case as HTTP allows."""
    named = {"webhook-id": "life-1-0", "Webhook-Timestamp": str(NOW), "WEBHOOK-SIGNATURE": signature}
    return named | changed
