"""The check of signed requests (SPEC section 14, Standard Webhooks)."""

from typing import Any

import pytest

from client_sdk.errors import SignatureRefused
from client_sdk.signing import Signer, Verifier, read_keys
from tests.rows import each_row
from tests.unit.client_sdk.signed import BODY, NEW, NOW, OLD, headers, sign


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
            signer = Signer(clock=lambda row=row: row["timestamp"])
            made = signer.sign(read_keys([row["secret"]]), row["id"], row["payload"].encode())
            assert dict(made) == given, row["name"]
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


@each_row("body", [f"{NOW + 1}.paid", f"{NOW}.", f"x.{NOW}.y", f"{NOW}.{NOW}.{NOW}.z", "1.2.3", "."])
def test_what_was_signed_is_cut_in_one_way_alone(body: str) -> None:
    """No place but that of its signer makes another id, time or body of a signed text."""
    own = f"life-1.a.{NOW}.{body}"
    signature = sign(OLD, message_id="life-1.a", body=body.encode())
    parts = own.split(".")
    taken = []
    for place in range(1, len(parts)):
        given = {"webhook-id": ".".join(parts[:place]), "webhook-timestamp": parts[place]}
        rest = ".".join(parts[place + 1 :]).encode()
        if holds(verifier(OLD), given | {"webhook-signature": signature}, rest):
            taken.append(given["webhook-id"])
    assert taken == ["life-1.a"]


@each_row("message_id", [f"a.{NOW}", f"a.{NOW}.b", "a.123456789012"])
def test_an_id_with_a_time_in_it_is_refused(message_id: str) -> None:
    """Whoever signed it: where it ends is not known. Other dots are as good as any letter."""
    given = headers(sign(OLD, message_id=message_id)) | {"webhook-id": message_id}
    with pytest.raises(SignatureRefused, match="reads as a time"):
        verifier(OLD).verify(given, BODY)
    for fine in ("v1.2.3", "order.2026", f"x{NOW}", f"{NOW}"):
        given = headers(sign(OLD, message_id=fine)) | {"webhook-id": fine}
        assert verifier(OLD).verify(given, BODY) == fine


def test_a_secret_is_never_shown() -> None:
    """Not even where it cannot be read."""
    with pytest.raises(ValueError, match="not base64") as caught:
        Verifier("whsec_not*base64*at*all")
    assert "not*" not in str(caught.value)


def test_what_is_signed_is_verified() -> None:
    """By each of two secrets; nothing that is signed twice under one id has the same time."""
    now = [NOW]
    signer = Signer(clock=lambda: now[0] + 0.9)
    first, second = (
        dict(signer.sign(read_keys([NEW, OLD]), "one", BODY)),
        dict(signer.sign(read_keys([NEW, OLD]), "one", BODY)),
    )
    assert first == headers_of(f"{sign(NEW, message_id='one')} {sign(OLD, message_id='one')}", NOW)
    assert second["webhook-timestamp"] == str(NOW + 1)
    assert dict(signer.sign(read_keys([NEW]), "other", None))["webhook-timestamp"] == str(NOW)
    both = verifier(OLD, NEW)
    assert [both.accept(given, BODY) for given in (first, second)] == ["one", "one"]
    now[0] += 1
    assert dict(signer.sign(read_keys([NEW]), "one", BODY))["webhook-timestamp"] == str(NOW + 2)
    now[0] += 1
    assert dict(signer.sign(read_keys([NEW]), "one", BODY))["webhook-timestamp"] == str(NOW + 3)
    now[0] -= 1_000  # the clock was set back
    assert dict(signer.sign(read_keys([NEW]), "one", BODY))["webhook-timestamp"] == str(NOW - 998)
    now[0] = NOW
    started = Signer(clock=lambda: now[0], ahead=2)  # in the place of one that was killed in this second
    for moment, wanted in ((NOW, NOW + 2), (NOW + 3, NOW + 3), (NOW - 9_000, NOW - 8_998)):
        now[0] = moment
        assert dict(started.sign(read_keys([NEW]), "one", BODY))["webhook-timestamp"] == str(wanted)
    for secrets in ([], [NEW] * 3, ["plain"], [NEW, ""]):
        with pytest.raises(ValueError, match="secret"):
            read_keys(secrets)


def headers_of(signature: str, moment: int) -> dict[str, str]:
    return {"webhook-id": "one", "webhook-timestamp": str(moment), "webhook-signature": signature}


def test_replays_are_remembered_as_long_as_they_could_be_accepted() -> None:
    """In bounded memory: where more comes, what is older than what was forgotten is refused."""
    now = [NOW]
    checker = Verifier(OLD, clock=lambda: now[0], replays=2)

    def accepts(message_id: str, moment: int) -> bool:
        given = headers_of(sign(OLD, moment=moment, message_id=message_id), moment)
        try:
            return checker.accept(given | {"webhook-id": message_id}, BODY) == message_id
        except SignatureRefused:
            return False

    assert [accepts("a", NOW - 9), accepts("a", NOW - 9), accepts("b", NOW - 5)] == [True, False, True]
    assert accepts("c", NOW)  # the third: what is as old as the first is refused now
    assert [accepts("a", NOW - 9), accepts("d", NOW - 9), accepts("b", NOW - 5)] == [False, False, False]
    now[0] += 301
    assert [accepts("c", NOW), accepts("e", NOW + 2), accepts("e", NOW + 2)] == [False, True, False]
