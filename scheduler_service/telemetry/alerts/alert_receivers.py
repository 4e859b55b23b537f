"""What chats have of their own: body, signature, limits, and what counts as delivered (SPEC section 14).

A receiver is a value. Nothing here sends, or reads a clock. What stands in a message comes from targets and
callers: each body has it as plain text, so that it opens no link, names nobody and draws nothing. Sources are
the pages of each receiver, as docs/alerts.md names them.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.texts import MARK, scrub

Message = Mapping[str, object]
"""As `telemetry.alerts.alert_messages` makes it; `link` leads into the console."""
REFUSAL_CHARACTERS = 200
LINK_TEXT = "Open in the console"
TEXT_BYTES, FACT_BYTES = 1_500, 200
"""What of a message is shown: all of it fits the smallest limit, the 4,096 bytes of WeCom."""


class SignedMessage(NamedTuple):
    """The address and the body of a try with its signature."""

    url: str
    body: bytes


class Limit(NamedTuple):
    """A robot takes at most so many messages within so many ms."""

    most: int
    within: int


class Receiver(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of chat.

    `write` makes the body of a message. `refuse` says in the receiver's own words why an answer of a success
    status is no delivery; None: it is one. `sign(url, body, secret, now)` signs at `now` (wall ms), and
    raises ValueError where it cannot; None: robots of this kind have no secret. `limits` are those of one
    robot.
    """

    write: Callable[[Message], dict[str, object]]
    refuse: Callable[[bytes], str | None]
    limits: tuple[Limit, ...]
    sign: Callable[[str, bytes, str, int], SignedMessage] | None = None


class _Shown(NamedTuple):
    title: str
    text: str
    facts: list[tuple[str, str]]
    link: str
    is_good: bool


def _show(message: Message, escape: Callable[[str], str] = str) -> _Shown:
    """What every chat shows of a message, escaped and cut: an escape is one character."""
    alert, kind, of = (str(message.get(name) or "") for name in ("alert", "kind", "of"))
    is_good = kind == "recovered"
    what = f"{of} {kind}" if is_good else of or kind
    text = str(message.get("text") or "").removeprefix(f"[{alert}] ")
    named = (("Job", "jobId"), ("Execution", "executionId"), ("At", "at"))
    facts = [(name, str(message[member])) for name, member in named if message.get(member)]
    return _Shown(
        title=f"[{alert}] {what}",  # words of the settings, of letters, digits, '.', '_' and '-'
        text=cut_bytes(escape(_in_one_line(text)), TEXT_BYTES),
        facts=[(name, cut_bytes(escape(_in_one_line(value)), FACT_BYTES)) for name, value in facts],
        link=str(message.get("link") or ""),
        is_good=is_good,
    )


def read_refusal(receiver: Receiver, status: int, body: bytes) -> str | None:
    """Why a message was not taken, in the receiver's own words; None: it was."""
    refused = receiver.refuse(body)
    return refused if refused or 200 <= status < 300 else _excerpt(body)


def cut_bytes(text: str, most: int) -> str:
    """The text in at most `most` bytes of UTF-8; a longer one ends with the mark of a cut."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    return encoded[: most - len(MARK.encode())].decode("utf-8", "ignore") + MARK


def _in_one_line(text: str) -> str:
    return " ".join(scrub(text).split())


# Slack: incoming webhooks, https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks


def _write_slack(message: Message) -> dict[str, object]:
    """Blocks of plain text; `text` is what a notification shows, and is read for mentions and links."""
    shown = _show(message)
    blocks: list[dict[str, object]] = [
        {"type": "header", "text": _plain_of_slack(shown.title)},
        {"type": "section", "text": _plain_of_slack(shown.text)},
        {"type": "section", "fields": [_plain_of_slack(f"{name}: {value}") for name, value in shown.facts]},
    ]
    if shown.link:
        link = f"<{_escape_slack(shown.link)}|{LINK_TEXT}>"
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link}})
    text = _escape_slack(f"{shown.title} {shown.text}")
    return {"text": text, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _plain_of_slack(text: str) -> dict[str, object]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _refuse_slack(body: bytes) -> str | None:
    return None if body.strip() == b"ok" else _excerpt(body)


# Microsoft Teams: Workflows ("When a Teams webhook request is received"), and connectors before them,
# https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using

_FAILED_IN_TEAMS = (b"Webhook message delivery failed", b"Microsoft Teams endpoint returned HTTP error")


def _write_teams(message: Message) -> dict[str, object]:
    """An adaptive card. A TextRun, other than a TextBlock, has no Markdown."""
    shown = _show(message)
    color = "Good" if shown.is_good else "Attention"
    runs = [_run(shown.title, weight="Bolder", size="Medium", color=color), _run(shown.text)]
    runs += [_run(f"{name}: {value}", isSubtle=True) for name, value in shown.facts]
    card: dict[str, object] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": runs,
    }
    if shown.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": LINK_TEXT, "url": shown.link}]
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "contentUrl": None, "content": card}]}


def _run(text: str, **style: object) -> dict[str, object]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}


def _refuse_teams(body: bytes) -> str | None:
    """A connector says with 200 that Teams has refused a message."""
    return _excerpt(body) if any(words in body for words in _FAILED_IN_TEAMS) else None


# DingTalk: custom robots, https://open.dingtalk.com/document/robots/custom-robot-access
# WeCom: group robots, https://developer.work.weixin.qq.com/document/path/91770

_MARKUP = str.maketrans("*`[]<>#~|!\\", "＊｀［］＜＞＃～｜！＼")
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")


def _without_markup(text: str) -> str:
    """The full-width form of each character that begins markup: neither receiver knows an escape.

    An underscore within a word draws nothing, and stays.
    """
    return _UNDERSCORE.sub("＿", text.translate(_MARKUP))


def _write_dingtalk(message: Message) -> dict[str, object]:
    shown = _show(message, _without_markup)
    lines = [f"#### {shown.title}", shown.text, *(f"- {name}: {value}" for name, value in shown.facts)]
    lines += [f"[{LINK_TEXT}]({shown.link})"] if shown.link else []
    markdown = {"title": shown.title, "text": "\n\n".join(lines)}
    return {"msgtype": "markdown", "markdown": markdown, "at": {"isAtAll": False}}


def _sign_dingtalk(url: str, body: bytes, secret: str, now: int) -> SignedMessage:
    """In the query; the time counts in ms."""
    signature = _digest(secret.encode(), f"{now}\n{secret}".encode())
    mark = "&" if "?" in url else "?"
    return SignedMessage(f"{url}{mark}timestamp={now}&sign={quote(signature, safe='')}", body)


def _write_wecom(message: Message) -> dict[str, object]:
    shown = _show(message, _without_markup)
    color = "info" if shown.is_good else "warning"
    lines = [f'<font color="{color}">{shown.title}</font>', shown.text]
    lines += [f"> {name}: {value}" for name, value in shown.facts]
    lines += [f"[{LINK_TEXT}]({shown.link})"] if shown.link else []
    return {"msgtype": "markdown", "markdown": {"content": "\n".join(lines)}}


def _refuse_by_code(body: bytes, *names: tuple[str, str]) -> str | None:
    """`names` are those of the code and of the message; the first code that is there counts."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):  # it is no JSON, or nested too deep
        answer = None
    if isinstance(answer, dict):
        for code, message in names:
            if code in answer:
                said = cut_bytes(_in_one_line(str(answer.get(message) or "")), REFUSAL_CHARACTERS)
                return None if answer[code] == 0 else f"{answer[code]}: {said}"
    return _excerpt(body)


def _refuse_errcode(body: bytes) -> str | None:
    return _refuse_by_code(body, ("errcode", "errmsg"))


# Feishu and Lark: custom bots, https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot


def _write_feishu(message: Message) -> dict[str, object]:
    """An interactive card of plain text."""
    shown = _show(message)
    fields = [
        {"is_short": False, "text": _plain_of_feishu(f"{name}: {value}")} for name, value in shown.facts
    ]
    elements: list[dict[str, object]] = [
        {"tag": "div", "text": _plain_of_feishu(shown.text)},
        {"tag": "div", "fields": fields},
    ]
    if shown.link:
        button = {"tag": "button", "type": "default", "text": _plain_of_feishu(LINK_TEXT), "url": shown.link}
        elements.append({"tag": "action", "actions": [button]})
    header = {"title": _plain_of_feishu(shown.title), "template": "green" if shown.is_good else "red"}
    card = {"config": {"wide_screen_mode": True}, "header": header, "elements": elements}
    return {"msg_type": "interactive", "card": card}


def _plain_of_feishu(text: str) -> dict[str, object]:
    return {"tag": "plain_text", "content": text}


def _sign_feishu(url: str, body: bytes, secret: str, now: int) -> SignedMessage:
    """In the body, a JSON object; the time counts in seconds, and is a part of the key."""
    if not body.startswith(b"{"):
        raise ValueError("a signed message of feishu is a JSON object")
    seconds = now // SECOND
    signature = _digest(f"{seconds}\n{secret}".encode(), b"")
    own = json.dumps({"timestamp": str(seconds), "sign": signature})[:-1].encode()
    rest = body[1:].lstrip()
    return SignedMessage(url, own + (rest if rest == b"}" else b"," + rest))


def _refuse_feishu(body: bytes) -> str | None:
    return _refuse_by_code(body, ("code", "msg"), ("StatusCode", "StatusMessage"))


def _digest(key: bytes, text: bytes) -> str:
    return base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def _excerpt(body: bytes) -> str:
    text = _in_one_line(body[: 8 * REFUSAL_CHARACTERS].decode("utf-8", "replace"))
    return cut_bytes(text, REFUSAL_CHARACTERS) or "the answer is empty"


LATE = SECOND
"""By so much the receiver's minute may begin later than ours."""
RECEIVERS: Mapping[str, Receiver] = {
    "slack": Receiver(write=_write_slack, refuse=_refuse_slack, limits=(Limit(1, SECOND),)),
    "teams": Receiver(write=_write_teams, refuse=_refuse_teams, limits=(Limit(4, SECOND),)),
    "dingtalk": Receiver(
        write=_write_dingtalk,
        refuse=_refuse_errcode,
        limits=(Limit(20, MINUTE + LATE),),
        sign=_sign_dingtalk,
    ),
    "wecom": Receiver(write=_write_wecom, refuse=_refuse_errcode, limits=(Limit(20, MINUTE + LATE),)),
    "feishu": Receiver(
        write=_write_feishu,
        refuse=_refuse_feishu,
        limits=(Limit(5, SECOND), Limit(100, MINUTE + LATE)),
        sign=_sign_feishu,
    ),
}
"""By the `format` of an alert; `json` has none: its body is the message itself."""
