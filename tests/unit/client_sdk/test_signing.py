"""The check of signed requests (SPEC section 14, Standard Webhooks)."""

import base64
from typing import Any

import pytest

from client_sdk.errors import SignatureRefused
from client_sdk.signing import Verifier
from tests.rows import each_row
from tests.unit.client_sdk.signed import BODY, NEW, NOW, headers, sign

OLD = "whsec_" + base64.b64encode(b"old" * 8).decode()


def verifier(*secrets: str, now: float = NOW) -> Verifier:
    return Verifier(*secrets, clock=lambda: now)


def test_vectors_of_the_standard(conformance: Any) -> None:
    """Every signature of the published vectors is judged as they say."""
    judged = 0
    for row in conformance("webhook_vectors.jsonl"):
        if row["set"] == "standard-webhooks-sign":
            given = {"webhook-id": row["id"], "webhook-timestamp": str(row["timestamp"])}
            given["webhook-signature"] = row["expect"]
            checker = verifier(row["secret"], now=row["timestamp"])
            assert checker.verify(given, row["payload"].encode()) == row["id"], row["name"]
        elif row["set"] == "standard-webhooks-verify" and row["expect"] != "either":
            checker = Verifier(
                row["secret"], tolerance=row["tolerance_seconds"], clock=lambda row=row: row["now"]
            )
            assert holds(checker, row["headers"], row["payload"].encode()) is row["expect"], row["name"]
        elif row["set"] == "standard-webhooks-secret":
            with pytest.raises(ValueError, match="secret"):
                Verifier(row["secret"])
        else:
            continue
        judged += 1
    assert judged >= 40


def holds(checker: Verifier, given: dict[str, str], body: bytes) -> bool:
    try:
        checker.verify(given, body)
    except SignatureRefused:
        return False
    return True


def test_two_secrets_while_one_replaces_the_other() -> None:
    """Both are right, in any order and beside other signatures; a third is not."""
    both = verifier(OLD, NEW)
    for signature in (sign(OLD), sign(NEW), f"{sign(NEW)} {sign(OLD)}", f"v1a,xx v1,!! {sign(OLD)}"):
        assert both.verify(headers(signature), BODY) == "life-1-0"
    assert not holds(verifier(NEW), headers(sign(OLD)), BODY)
    for count in (0, 3):
        with pytest.raises(ValueError, match="give one, or two"):
            Verifier(*[OLD] * count)


@each_row(("away", "right"), [(-301, False), (-300, True), (300, True), (301, False)])
def test_a_signature_has_its_time(away: int, right: bool) -> None:
    """Five minutes on either side; a replayed request is refused after them."""
    assert holds(verifier(OLD, now=NOW + away), headers(sign(OLD)), BODY) is right


@each_row(
    "changed",
    [{"webhook-id": "life-2-0"}, {"webhook-id": ""}, {"Webhook-Timestamp": "1700000001"}]
    + [{"Webhook-Timestamp": text} for text in ("", "-1", "1e9", "١٧", "9" * 13)],
)
def test_a_changed_request_is_refused(changed: dict[str, str]) -> None:
    """Whatever of it was changed; the reason never tells the right signature."""
    with pytest.raises(SignatureRefused) as caught:
        verifier(OLD).verify(headers(sign(OLD), **changed), BODY)
    assert sign(OLD)[3:] not in str(caught.value)
    assert not holds(verifier(OLD), headers(sign(OLD)), BODY + b" ")


def test_a_secret_is_never_shown() -> None:
    """Not even where it cannot be read."""
    with pytest.raises(ValueError, match="not base64") as caught:
        Verifier("whsec_not*base64*at*all")
    assert "not*" not in str(caught.value)
