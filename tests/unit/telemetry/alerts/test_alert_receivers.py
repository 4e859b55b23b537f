"""What chats are sent of hostile and long texts, how it is signed, what they refuse (SPEC section 14)."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS, cut_bytes, read_refusal
from tests.present import present
from tests.rows import each_row

HOSTILE = (
    "<!channel> <@U123> <@all> <at id=all></at> @all [click](https://evil.test) ![x](https://evil.test/x) "
    "<https://evil.test|here> **bold** _slanted_ nightly_report `code` ~gone~ <font color=red>\n# a\n> b"
)
MOST_BYTES = {"slack": 40_000, "teams": 28 << 10, "dingtalk": 20_000, "wecom": 4_096, "feishu": 20 << 10}


def message(**members: Any) -> dict[str, object]:
    """A failure, with what a target said."""
    return {
        "alert": "ops",
        "kind": "finalFailed",
        "of": "finalFailed",
        "jobId": "nightly",
        "executionId": "019c-3",
        "at": "2026-01-31T09:00:02.113Z",
        "text": f"[ops] The job nightly failed in its execution 3 ({HOSTILE}).",
        "link": "https://jobs.example/console/#/executions/019c-3",
        **members,
    }


def texts(value: Any, *kinds: str) -> Iterator[tuple[str, str]]:
    """Each text of a body, with the kind of the object in which it stands."""
    if isinstance(value, dict):
        for one in value.values():
            if isinstance(one, str):
                yield str(value.get("type") or value.get("tag") or ""), one
            else:
                yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


@each_row(
    ("name", "plain"),
    [("slack", "plain_text"), ("teams", "TextRun"), ("feishu", "plain_text")],
)
def test_what_a_target_said_stands_in_plain_text(name: str, plain: str) -> None:
    """Slack, Teams and Feishu have objects in which nothing is markup: as it is, but for line ends."""
    found = [kind for kind, text in texts(RECEIVERS[name].write(message())) if "<@U123>" in text]
    assert found == [plain]


def test_the_short_text_of_slack_names_nobody() -> None:
    """A notification shows it; `&`, `<` and `>` are escaped as Slack says."""
    text = RECEIVERS["slack"].write(message())["text"]
    assert isinstance(text, str)
    assert "&lt;!channel&gt; &lt;@U123&gt;" in text
    assert "<" not in text


@each_row("name", ["dingtalk", "wecom"])
def test_where_no_escape_is_known_nothing_is_markup(name: str) -> None:
    """Full-width forms stand for what draws, links or names; an underscore within a word stays."""
    body = RECEIVERS[name].write(message())["markdown"]
    assert isinstance(body, dict)
    text = body.get("text") or body["content"]
    (line,) = [one for one in text.splitlines() if "The job nightly" in one]
    assert re.search(r"[*`\[\]<>#~!]", line) is None
    assert "＜@all＞" in line
    assert "nightly_report" in line
    assert "_slanted_" not in line


@each_row(
    ("name", "text"),
    itertools.product(RECEIVERS, ["日本語" * 20_000, "<&>_*" * 20_000, "\ud800" * 5_000, "a" * 60_000, ""]),
)
def test_every_message_fits(name: str, text: str) -> None:
    """Whatever is in it, and cut between characters."""
    long = message(text=text, jobId=text[:256] or "x", executionId=None)
    long["link"] = "https://jobs.example/console/#/jobs/" + "%E6%97%A5" * 128
    body = RECEIVERS[name].write(long)
    encoded = json.dumps(body, ensure_ascii=False).encode()
    assert len(encoded) <= MOST_BYTES[name], len(encoded)
    if name == "wecom":
        markdown = body["markdown"]
        assert isinstance(markdown, dict)
        assert len(markdown["content"].encode()) <= MOST_BYTES[name]


def test_a_text_is_cut_between_characters() -> None:
    """At most so many bytes, the mark of the cut included."""
    assert cut_bytes("日本語", 9) == "日本語"
    assert cut_bytes("日本語日", 11) == "日本…"
    assert len(cut_bytes("😀" * 10, 18).encode()) <= 18
    # So that the record of a delivery stays small
    refused = read_refusal(RECEIVERS["slack"], 500, b"x" * 100_000)
    assert refused == "x" * 197 + "…"
    refused = read_refusal(RECEIVERS["wecom"], 200, b'{"errcode":1,"errmsg":"%s"}' % (b"x" * 100_000))
    assert refused == "1: " + "x" * 197 + "…"


@each_row("name", list(RECEIVERS))
def test_a_recovery_is_told_from_a_failure(name: str) -> None:
    """By its colour, where the chat has any, and in its title."""
    bad, good = (
        json.dumps(RECEIVERS[name].write(message(**members)))
        for members in ({}, {"kind": "recovered", "of": "failing"})
    )
    assert "[ops] finalFailed" in bad
    assert "[ops] failing recovered" in good


@each_row("name", list(RECEIVERS))
def test_without_an_address_there_is_no_link(name: str) -> None:
    """`server.external_url` is not set."""
    assert "console" not in json.dumps(RECEIVERS[name].write(message(link=None)))


def test_dingtalk_is_signed_in_the_query() -> None:
    """An HMAC of `timestamp\\nsecret` with the secret as the key, as base64, percent-encoded."""
    sign = present(RECEIVERS["dingtalk"].sign)
    signed = sign("https://oapi.test/robot/send?access_token=x", b"{}", "SECtest", 1_767_225_600_000)
    assert signed.body == b"{}"
    assert signed.url == (
        "https://oapi.test/robot/send?access_token=x&timestamp=1767225600000&sign=VFnS0ToY3dOa75%2FlvH0rYNwJBmfT5at2UOkds8G1Cuo%3D"
    )
    assert sign("https://oapi.test/send", b"", "SECtest", 1).url.startswith(
        "https://oapi.test/send?timestamp=1&sign="
    )
    # An HMAC of nothing with `timestamp\nsecret` as the key
    sign = present(RECEIVERS["feishu"].sign)
    signed = sign("https://open.test/hook/x", b'{"msg_type":"text"}', "SECtest", 1_767_225_600_999)
    assert signed.url == "https://open.test/hook/x"
    assert json.loads(signed.body) == {
        "timestamp": "1767225600",
        "sign": "8wfORKxBzLJIoNNdA7auruCXB+DNZIC3E/qp0HY+lIo=",
        "msg_type": "text",
    }
    assert sorted(json.loads(sign("u", b"{}", "s", 0).body)) == ["sign", "timestamp"]
    with pytest.raises(ValueError, match="JSON object"):
        sign("u", b'"text"', "s", 0)


@each_row(
    ("name", "status", "body", "refused"),
    [
        ("slack", 200, b"ok", None),
        ("slack", 200, b"<html>proxy</html>", "<html>proxy</html>"),
        ("slack", 404, b"no_service", "no_service"),
        ("slack", 200, b"", "the answer is empty"),
        ("teams", 202, b"", None),
        ("teams", 200, b"1", None),
        ("teams", 200, b'{"id":"1"}', None),
        ("teams", 400, b'{"error":{"code":"x"}}', '{"error":{"code":"x"}}'),
        (
            "teams",
            200,
            b"Webhook message delivery failed with error: x",
            "Webhook message delivery failed with error: x",
        ),
        ("dingtalk", 200, b'{"errcode":0,"errmsg":"ok"}', None),
        ("dingtalk", 200, b'{"errcode":130101,"errmsg":"send too fast"}', "130101: send too fast"),
        ("dingtalk", 200, b"", "the answer is empty"),
        ("dingtalk", 200, b"[0]", "[0]"),
        ("wecom", 200, b'{"errcode":45009,"errmsg":"api freq out of limit"}', "45009: api freq out of limit"),
        ("wecom", 200, b'{"errcode":null}', "None: "),
        ("feishu", 200, b'{"code":0,"msg":"success"}', None),
        ("feishu", 200, b'{"StatusCode":0,"StatusMessage":"success"}', None),
        ("feishu", 200, b'{"code":19024,"msg":"Key Words Not Found"}', "19024: Key Words Not Found"),
        ("feishu", 200, b'{"ok":true}', '{"ok":true}'),
    ],
)
def test_what_counts_as_delivered(name: str, status: int, body: bytes, refused: str | None) -> None:
    """As each of them has it; else its own words."""
    assert read_refusal(RECEIVERS[name], status, body) == refused
