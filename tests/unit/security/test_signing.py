"""How requests are signed, with secrets of tenants and for old peers (SPEC section 14)."""

import hashlib
import json

import pytest

from client_sdk.signing import Verifier
from scheduler_service.security.secrets import GivenSecrets
from scheduler_service.security.signing import CannotSign, RequestSigner, Signed
from tests.rows import each_row
from tests.unit.client_sdk.signed import NEW, NOW, OLD

KEY = ("Idempotency-Key", "life-1-0")
SECRETS = {"a": {"hooks": (NEW, OLD), "one": (OLD,), "text": ("a plain text",), "md5": (NEW,)}}


def signer(md5_secret: str | None = None) -> RequestSigner:
    return RequestSigner(secrets=GivenSecrets(SECRETS), md5_secret=md5_secret, clock=lambda: NOW)


def test_the_id_that_is_signed_is_the_key_of_the_request() -> None:
    """A delivery has a `webhook-id` of its own; what else a step says of a signature is replaced."""
    made = signer()
    own = (("Webhook-Signature", "v1,forged"), ("WEBHOOK-TIMESTAMP", "1"), ("X-A", "1"))
    spaced = (("Idempotency-Key", " life-1-0\t"), *own)
    for headers, message_id in (
        ((KEY, *own), "life-1-0"),
        ((KEY, ("webhook-id", "told"), *own), "told"),
        (spaced, "life-1-0"),  # its receiver finds no blanks around it
    ):
        signed = made.sign(made.find("a", "hooks"), Signed("/x", headers, b"{}"))
        named = {name.lower(): value for name, value in signed.headers}
        assert len(named) == len(signed.headers)
        assert (named["x-a"], signed.path, signed.body) == ("1", "/x", b"{}")
        for secret in (NEW, OLD):
            assert Verifier(secret, clock=lambda: NOW).verify(named, b"{}") == message_id
    with pytest.raises(CannotSign, match="has no Idempotency-Key"):
        made.sign(made.find("a", "hooks"), Signed("/x", (("Idempotency-Key", ""),), None))


@each_row("header", ["Idempotency-Key", "webhook-id"])
def test_an_id_outside_ascii_is_not_signed(header: str) -> None:
    """Receivers that read headers as Latin-1 would verify another id, and refuse each call."""
    made = signer()
    keys = made.find("a", "hooks")
    with pytest.raises(CannotSign, match=f"the {header} 'bestellung-ü', .* outside ASCII"):
        made.sign(keys, Signed("/x", ((header, "bestellung-ü"),), b"{}"))
    old = signer("old secret")
    assert old.sign(old.find("a", "md5"), Signed("/x", ((header, "ü"),), None)).path.startswith("/x?sign=")


@each_row(
    ("tenant", "name", "why"),
    [
        ("a", "hooks", None),
        ("a", "one", None),
        ("a", "md5", None),
        ("a", "none", "there is no 'none'"),
        ("b", "hooks", "there is no 'hooks'"),
        ("a", "text", "'text' cannot sign: a secret is not base64"),
    ],
)
def test_why_a_secret_cannot_sign(tenant: str, name: str, why: str | None) -> None:
    """Of another tenant it is not there; nothing of it is said."""
    found = signer().judge(tenant, name)
    assert (found is None) is (why is None)
    assert why is None or (why in str(found) and "plain" not in str(found))


@each_row(
    ("path", "kind", "body", "joined", "sent"),
    [
        ("/x?b=2&a=1", "", None, "a=1&b=2", ("/x?b=2&a=1&sign={}", None)),
        ("/x", "", None, "", ("/x?sign={}", None)),
        ("/x?page=0", "application/json", b'{"total":3,"Z":"\xe4\xbd\x9c","n":null,"o":{"a": [1]},"t":true}',
         "Z=作&o={\"a\": [1]}&page=0&t=true&total=3", ("/x?page=0", {"sign": "{}"})),
        ("/x", "application/x-www-form-urlencoded; charset=utf-8", b"b=x+y&a=%26",
         "a=&&b=x y", ("/x", b"b=x+y&a=%26&sign={}")),
        ("/x?a=1", "application/json", b"[1]", "a=1", ("/x?a=1&sign={}", b"[1]")),
        ("/x?a=1", "text/plain", b"hello", "a=1", ("/x?a=1&sign={}", b"hello")),
    ],
)  # fmt: skip
def test_old_peers_find_a_parameter(
    path: str, kind: str, body: bytes | None, joined: str, sent: tuple[str, object]
) -> None:
    """MD5, lower hex, of the sorted parameters and the secret, where they look for it."""
    made = signer("old secret")
    headers = (KEY, ("Content-Type", kind)) if kind else (KEY,)
    signed = made.sign(made.find("b", "md5"), Signed(path, headers, body))
    digest = hashlib.md5(f"{joined}old secret".encode()).hexdigest()
    given = sent[1]
    if isinstance(given, dict):
        assert body is not None
        assert signed.body is not None
        assert json.loads(signed.body) == json.loads(body) | {"sign": digest}
    else:
        wanted = given.replace(b"{}", digest.encode()) if isinstance(given, bytes) else given
        assert signed.body == wanted
    assert (signed.path, signed.headers) == (sent[0].replace("{}", digest), headers)


@each_row(
    ("path", "body"),
    [("/x?sign=1", None), ("/x?sign=", b"{}"), ("/x", b'{"sign": null}'), ("/x", b'{"sign":1}')],
)
def test_a_parameter_of_that_name_is_not_replaced(path: str, body: bytes | None) -> None:
    """The peer could not tell which one it is."""
    made = signer("old secret")
    with pytest.raises(CannotSign, match="a parameter 'sign' of its own"):
        made.sign(made.find("b", "md5"), Signed(path, (KEY,), body))
