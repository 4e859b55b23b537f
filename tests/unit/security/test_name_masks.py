"""Secrets in texts, URLs and bodies (SPEC section 14)."""

import json
from typing import Any

import msgspec

from scheduler_service.domain.records import (
    AttemptEnded,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    Exchange,
    FeedbackSeen,
    Noted,
)
from scheduler_service.language.value_masks import NO_MASK, SecretMask
from scheduler_service.security.history_masking import MASKED_HEADERS, Masking
from scheduler_service.security.name_masks import (
    MOST_CHANGES,
    VALUE_BYTES,
    Concealment,
    DefinitionMasking,
    hide_hook,
    hide_login,
    hide_query,
)
from tests.rows import each_row
from tests.unit.security.secrets import MASKING, SECRET, masked_body, masked_exchange


@each_row(
    "body",
    [
        rb'{"p\u0061ssword":"s3cr3t"}',
        b'{"a":{"password":"s3cr3t"},"a":1}',
        b'{"password":"s3cr3t","password":"s3cr3t"}',
        b'{"password":"s3cr3t", "cut',
        b"password=s3cr3t&b=1",
        b"b=1&pass%77ord=1&apiKey=s3cr3t",
        b"the password is s3cr3t",
        b'\xff"password":"s3cr3t"',
        b'{"password":"s3cr3t","deep":' + b"[" * 100_000,
    ],
)
def test_a_spelling_that_hides_a_member_hides_nothing(body: bytes) -> None:
    """What cannot be read as JSON or a form is replaced as a whole."""
    assert SECRET.encode() not in masked_body(body)


RANDOM = "2c96f3b8d1e04a57"
UUID = "0b6a2f0e-7c1d-4b8a-9f3e-5d2c1b0a9e8f"
HOOKS = [
    ("https://hooks.slack.com/services/T0/B1/s3cr3t", "https://hooks.slack.com/***"),
    ("https://hooks.zapier.com/hooks/catch/123/s3cr3t/", "https://hooks.zapier.com/***"),
    ("https://a.webhook.office.com/webhookb2/s3cr3t@x/IncomingWebhook/1", "https://a.webhook.office.com/***"),
    (f"https://discord.com/api/webhooks/123/s3cr3t{RANDOM}?wait=1", "https://discord.com/api/webhooks/***"),
    (
        f"https://open.feishu.cn/open-apis/bot/v2/hook/{UUID}",
        "https://open.feishu.cn/open-apis/bot/v2/hook/***",
    ),
    (
        f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={UUID}",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/***",
    ),
    (f"https://chat.h/hooks/{RANDOM}z", "https://chat.h/hooks/***"),
    (f"https://api.telegram.org/bot12345:{RANDOM}/sendMessage", "https://api.telegram.org/bot***"),
    ("http://ci.h/webhooks/nightly-report-2026", "http://ci.h/webhooks/nightly-report-2026"),
    ("http://webhook:8080/orders/20261130/run", "http://webhook:8080/orders/20261130/run"),
    (f"http://shop.h/orders/{UUID}", f"http://shop.h/orders/{UUID}"),
]
"""Addresses whose path, or what is behind it, is what lets a caller in, and some that look alike."""


@each_row(
    ("url", "expected"),
    [
        ("http://h/jobs/a/feedback/1?token=s3cr3t", "http://h/jobs/a/feedback/1?token=***"),
        ("http://h/f?token=s3cr3t&shard=1", "http://h/f?token=***&shard=1"),
        ("http://h/f?a=1&Password=s3cr3t#x", "http://h/f?a=1&Password=***#x"),
        ("http://h/f?p%61ssword=s3cr3t", "http://h/f?p%61ssword=***"),
        ("http://h/f?x-api-key=s3cr3t", "http://h/f?x-api-key=***"),
        ("http://h/f#token=s3cr3t", "http://h/f#token=***"),
        ("http://user:s3cr3t@h/f", "http://***@h/f"),
        (
            "http://h/f?cb=http%3A%2F%2Fh%3Ftoken%3Ds3cr3t%26x",
            "http://h/f?cb=http%3A%2F%2Fh%3Ftoken%3D***%26x",
        ),
        # In a path, a bare query and a fragment, percent-encoded once or more often.
        ("http://h/in/http%3A%2F%2Fh%2Ff%3Ftoken%3Ds3cr3t", "http://h/in/http%3A%2F%2Fh%2Ff%3Ftoken%3D***"),
        (
            "http://h/in/http%3A%2F%2Fh%2Ff%3Ftoken%3Ds3cr3t/x",
            "http://h/in/http%3A%2F%2Fh%2Ff%3Ftoken%3D***",
        ),
        ("http://h/in?http%3A%2F%2Fh%2Ff%3Ftoken%3Ds3cr3t", "http://h/in?http%3A%2F%2Fh%2Ff%3Ftoken%3D***"),
        ("http://h/in#http%3A%2F%2Fh%2Ff%3Ftoken%3Ds3cr3t", "http://h/in#http%3A%2F%2Fh%2Ff%3Ftoken%3D***"),
        ("http://h/in/h%252Ff%253Ftoken%253Ds3cr3t", "http://h/in/h%252Ff%253Ftoken%253D***"),
        (
            "http://h/in/f%25253Fa%2525261%25252526token%25253ds3cr3t",
            "http://h/in/f%25253Fa%2525261%25252526token%25253d***",
        ),
        ("http://h/in/f%3FTokEn%3Ds3cr3t", "http://h/in/f%3FTokEn%3D***"),
        ("http://h/f;token=s3cr3t/x", "http://h/f;token=***"),
        ("http://h/f?mail=a@b.c&tokens=1", "http://h/f?mail=a@b.c&tokens=1"),
        # Parameters apart by `;`, also in a path; a value may have one.
        ("http://h/f?a=1;password=s3cr3t;b=2&c=3", "http://h/f?a=1;password=***&c=3"),
        ("http://h/f?password=a;s3cr3t&c=3", "http://h/f?password=***&c=3"),
        ("http://h/f;v=1;api_key=s3cr3t/x?c=3", "http://h/f;v=1;api_key=***"),
        ("http://h/f#a=1&access_token=s3cr3t", "http://h/f#a=1&access_token=***"),
        ("http://h/f?sv=1&sig=s3cr3t", "http://h/f?sv=1&sig=***"),
        *HOOKS,
    ],
)
def test_urls_carry_no_secrets(url: str, expected: str) -> None:
    """Feedback tokens, parameters of masked names and user information, in every URL that is kept."""
    assert masked_exchange(url=url).url == expected
    delivery = MASKING.redact(DeliveryRecord("d", 1, 1, "succeed", url, "pending"))
    assert isinstance(delivery, DeliveryRecord)
    assert delivery.url == expected


@each_row("name", ["token", "TOKEN", "TokEn"])
def test_feedback_tokens_are_masked_in_bodies_headers_and_texts(name: str) -> None:
    """A feedback URL is often part of the request's body: its token is secret there too, in any letters."""
    url = f"http://h/jobs/a/feedback/1?{name}=s3cr3t"
    found = masked_exchange(
        Masking(),
        request_body=json.dumps({"callback": url}).encode(),
        response_body=rb'"http://h/f?a=1\u0026%b=s3cr3t\u0026b=2"' % name.encode(),
        response_headers=(("Location", url),),
        fault=f"{url} refused",
    )
    assert SECRET not in repr(found)
    assert found.response_body == rb'"http://h/f?a=1\u0026%b=***\u0026b=2"' % name.encode()
    for record in (
        AttemptEnded(1, 1, 0, message=f"no answer from {url}"),
        Noted(1, 0, "note", f"sent to {url}"),
        FeedbackSeen(1, 1, 0, url.encode()),
        CheckEnded(1, 1, 1, 0, Exchange("GET", url)),
        DeliveryRecord("d", 1, 1, "succeed", "http://h/", "failed", tries=(DeliveryTry(0, fault=url),)),
    ):
        assert SECRET not in repr(MASKING.redact(record))


DEFINITIONS = DefinitionMasking(conceal=Concealment(headers=MASKED_HEADERS, members=("pin",)))
CANARY = "canary-7f3a"


def step(**members: Any) -> dict[str, Any]:
    return {"request": [{"url": "http://target.test/run", **members}]}


def test_a_canary_is_shown_nowhere() -> None:
    """In a header, a named member at any depth, user information and parameters of a URL, JSON in a text."""
    places = (
        {"headers": {"Authorization": CANARY}},
        {"headers": {"X-Any": CANARY}},
        {"body": {"deep": [{"PIN": CANARY}]}},
        {"body": '{"pin": "' + CANARY + '"}'},
        {"url": f"http://anna:{CANARY}@target.test/"},
        {"url": f"http://target.test/?pin={CANARY}&token={CANARY}"},
        {"checkUrl": {"url": "http://a.test/", "headers": {"Cookie": CANARY}}},
        {"body": {"password": CANARY, "shop": {"api_key": [CANARY], "clientSecret": CANARY}}},
        {"body": f"user=a&access_token={CANARY}"},
        {"checkUrl": f"http://a.test/?x=1&apiKey={CANARY}"},
    )
    for place in places:
        for before, after in ((step(), step(**place)), (step(**place), step()), (step(**place), {})):
            text = msgspec.json.encode(DEFINITIONS.changes(before, after, NO_MASK)).decode()
            assert CANARY not in text, text
            assert '"pointer"' in text


PLAIN: dict[str, Any] = {
    "request": [
        {
            "url": f"http://a.test/?page=2&api%5Fkey={CANARY}#x",
            "headers": {"authorization": CANARY, "X-Shop-Token": CANARY, "Accept": "text/plain"},
            "body": {"password": CANARY, "deep": [{"Secret-Key": 12345, "pin": CANARY}], "sortKey": "name"},
        },
        {"url": "http://b.test/", "body": f'{{"client_secret": "{CANARY}", "n": 1}}'},
    ],
    "checkUrl": f"http://a.test/?token={CANARY}",
    "notification": [{"url": "http://c.test/", "body": f"a=1&passwd={CANARY}"}],
}
TEMPLATES: dict[str, Any] = {
    "request": [
        {
            "url": "http://a.test/?api_key=${secrets.A}&token=",
            "headers": {"Authorization": "Bearer ${secrets.A}", "Cookie": ""},
            "body": {
                "password": "${secrets.A}",
                "token": None,
                "secret": True,
                "maxTokens": 5,
                "keys": ["a"],
            },
        }
    ],
    "jobDescription": "the password is in ${secrets.A}",
}


def test_plain_credentials_of_a_definition_are_found_and_hidden() -> None:
    """By their names, in headers, bodies and queries; what names a secret, and all else, is left as it is."""
    text = msgspec.json.encode(PLAIN)
    hidden = DEFINITIONS.hide_in(text)
    assert CANARY.encode() not in hidden
    assert b"12345" not in hidden
    shown = msgspec.json.decode(hidden)
    assert shown["request"][0]["url"] == "http://a.test/?page=2&api%5Fkey=***#x"
    assert shown["request"][0]["headers"]["Accept"] == "text/plain"
    assert shown["request"][0]["body"]["sortKey"] == "name"
    assert [pointer for pointer, _ in DEFINITIONS.find_plain(text)] == [
        "/request/0/url",
        "/request/0/headers/authorization",
        "/request/0/headers/X-Shop-Token",
        "/request/0/body/password",
        "/request/0/body/deep/0/Secret-Key",
        "/request/0/body/deep/0/pin",
        "/request/1/body",
        "/checkUrl",
        "/notification/0/body",
    ]
    several = b"[" + text + b"," + msgspec.json.encode(TEMPLATES) + b"]"
    assert msgspec.json.decode(DEFINITIONS.hide_in(several)) == [shown, TEMPLATES]
    assert DEFINITIONS.find_plain(msgspec.json.encode(TEMPLATES)) == []
    assert DEFINITIONS.hide_in(hidden) == hidden
    cut = '{"n": 1, "pin":7, "token" : "a\\"' + CANARY
    assert DEFINITIONS.hide({"body": cut}) == {"body": '{"n": 1, "pin":"***", "token" : "***"'}


@each_row(("url", "expected"), HOOKS)
def test_the_path_of_a_hook_is_a_credential(url: str, expected: str) -> None:
    """In a definition, in the log and in settings; what names a secret there is left as it is."""
    hidden = DEFINITIONS.hide_in(msgspec.json.encode({"notification": [{"url": url}]}))
    assert msgspec.json.decode(hidden) == {"notification": [{"url": expected}]}
    assert DEFINITIONS.hide_in_line(f"POST {url} was answered 500") == f"POST {expected} was answered 500"
    assert hide_login(url) == (expected if "***" in expected else url)
    if url != expected:
        named = expected.replace("***", "${secrets.HOOK}")
        assert hide_query(named) == named
        assert DEFINITIONS.find_plain(msgspec.json.encode({"url": named})) == []


def test_a_long_path_of_a_hook_is_read_once() -> None:
    """Not again from each of its characters: that would take minutes, and a second at the longest URL."""
    for piece in ("a", "a-", "/hook"):
        url = "http://h/hook/" + piece * 100_000
        assert hide_hook(url) == url
        assert hide_hook(f"{url}/{RANDOM}").endswith("/hook/***")


def test_of_a_schema_values_alone_are_hidden() -> None:
    """Its form says what a parameter is like, and forms are made of it."""
    text = {"type": "string", "maxLength": 20, "default": "canary", "enum": ["canary"]}
    schema = {"type": "object", "properties": {"password": text, "n": {"type": "integer"}}}
    shown = DEFINITIONS.hide({"paramsSchema": schema})
    hidden = text | {"default": "***", "enum": ["***"]}
    assert shown == {"paramsSchema": schema | {"properties": {"password": hidden, "n": {"type": "integer"}}}}


def test_a_line_of_the_log_has_no_plain_credential() -> None:
    """Its addresses are found among words, however long these are."""
    line = "POST http://a.test/x?n=1&sessionToken=canary was answered 500: " + "a" * 4_000
    assert DEFINITIONS.hide_in_line(line) == line.replace("canary", "***")
    assert DEFINITIONS.hide_in_line("no token here") == "no token here"


def test_a_secret_of_which_a_part_is_hidden_anyway_is_hidden_whole() -> None:
    """A URL with a user, say: once that is hidden nobody finds the rest of the value any more."""
    value = "postgres://shop:PASS@db.intern/shop?password=abc"
    for place in ({"body": value}, {"url": value}, {"body": {"deep": [f"at {value}"]}}):
        text = repr(DEFINITIONS.changes(step(), step(**place), SecretMask([value])))
        assert [part for part in ("PASS", "db.intern", "abc") if part in text] == [], text


def test_a_difference_is_bounded() -> None:
    """A long value is cut, and of many places the first ones are shown."""
    before = {f"m{number}": 0 for number in range(MOST_CHANGES + 5)}
    after = dict.fromkeys(before, "x" * 10000)
    shown: Any = DEFINITIONS.changes(before, after, NO_MASK)
    assert shown["truncated"] is True
    assert len(shown["difference"]) == MOST_CHANGES
    assert all(len(one["after"]) <= VALUE_BYTES + 1 for one in shown["difference"])
    assert DEFINITIONS.changes(before, before, NO_MASK) == {"difference": []}
    # No begin of a value is left where a long one is cut
    mask = SecretMask([CANARY])
    for before in range(VALUE_BYTES - len(CANARY) - 2, VALUE_BYTES):
        for value in ("x" * before + CANARY + "y" * 40, ["x" * before, CANARY, "y" * 40]):
            shown: Any = DEFINITIONS.changes({"body": None}, {"body": value}, mask)
            text = mask.text(shown["difference"][0]["after"])
            assert CANARY[:2] not in text, text
            assert len(text) <= VALUE_BYTES + 1
