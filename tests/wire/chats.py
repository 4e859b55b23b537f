"""Chat receivers as their documentation has them: what they take, and how they refuse it.

Each is an answer of a target (`tests.wire.target.Compute`). They check what their documents say of a message:
its form, its size, its signature and how many came; texts of answers are theirs.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

from tests.wire.target import Reply, Seen

MINUTE = 60_000


class Chat:
    """One robot; `taken` has the messages that it has shown. `keyword`: stands in each of them."""

    def __init__(self, *, secret: str | None = None, keyword: str = "") -> None:
        self.secret = secret
        self.keyword = keyword
        self.taken: list[Seen] = []
        self.came: list[int] = []
        self.is_archived = False

    def __call__(self, seen: Seen) -> Reply:
        """The answer to a message."""
        self.came.append(seen.at)
        refused = self.refuse(seen)
        if refused is None:
            self.taken.append(seen)
            return self.accept()
        return refused

    def refuse(self, seen: Seen) -> Reply | None:
        """Why not, as this receiver answers then."""
        raise NotImplementedError

    def accept(self) -> Reply:
        """That it has."""
        raise NotImplementedError

    def is_too_fast(self, most: int, within: int) -> bool:
        """Whether more than `most` messages came within so many ms, this one included."""
        return len([at for at in self.came if at > self.came[-1] - within]) > most


class Slack(Chat):
    """Incoming webhooks: `ok`, or a status with one word."""

    def refuse(self, seen: Seen) -> Reply | None:
        if self.is_archived:
            return Reply(410, b"channel_is_archived")
        if self.is_too_fast(1, 1_000):
            return Reply(429, b"rate_limited", {"Retry-After": "1"})
        texts = [block["text"] for block in seen.json["blocks"] if "text" in block]
        texts += [field for block in seen.json["blocks"] for field in block.get("fields", [])]
        limits = {"header": 150, "section": 3_000}
        is_long = any(
            len(block["text"]["text"]) > limits[block["type"]]
            for block in seen.json["blocks"]
            if "text" in block
        )
        if is_long or not all(text["type"] in ("plain_text", "mrkdwn") and text["text"] for text in texts):
            return Reply(400, b"invalid_blocks")
        return None

    def accept(self) -> Reply:
        return Reply(200, b"ok")


class TeamsWorkflow(Chat):
    """Workflows: 202 without a body, or an error of Power Automate."""

    def refuse(self, seen: Seen) -> Reply | None:
        if len(seen.body) > 28 << 10:
            return Reply(413, {"error": {"code": "RequestEntityTooLarge", "message": "too large"}})
        (card,) = seen.json["attachments"]
        if card["contentType"] != "application/vnd.microsoft.card.adaptive":
            return Reply(400, {"error": {"code": "InvalidCard", "message": "no adaptive card"}})
        return None

    def accept(self) -> Reply:
        return Reply(202, b"")


class TeamsConnector(TeamsWorkflow):
    """The connectors before: `1`, and 200 for what Teams has refused."""

    def refuse(self, seen: Seen) -> Reply | None:
        if self.is_archived:
            said = "Webhook message delivery failed with error: "
            return Reply(200, f"{said}Microsoft Teams endpoint returned HTTP error 429".encode())
        return super().refuse(seen)

    def accept(self) -> Reply:
        return Reply(200, b"1")


class DingTalk(Chat):
    """200 for everything, with an `errcode`."""

    def refuse(self, seen: Seen) -> Reply | None:
        if self.is_too_fast(20, MINUTE):
            return _errcode(130101, "send too fast, exceed 20 times per minute")
        if self.secret is not None and not self._is_signed(seen, self.secret):
            return _errcode(310000, "sign not match")
        markdown = seen.json["markdown"]
        if not markdown["title"] or len(seen.body) > 20_000:
            return _errcode(400105, "unsupported msgtype")
        if self.keyword not in markdown["text"]:
            return _errcode(310000, "keywords not in content")
        return None

    def accept(self) -> Reply:
        return Reply(200, {"errcode": 0, "errmsg": "ok"})

    @staticmethod
    def _is_signed(seen: Seen, secret: str) -> bool:
        stamp = seen.query.get("timestamp", "0")
        expected = _hmac(secret, f"{stamp}\n{secret}")
        return abs(seen.at - int(stamp)) < 60 * MINUTE and seen.query.get("sign") == expected


class WeCom(Chat):
    """The same, with other codes; there is no signature."""

    def refuse(self, seen: Seen) -> Reply | None:
        if seen.query.get("key") != (self.secret or seen.query.get("key")):
            return _errcode(93000, "invalid webhook url")
        if self.is_too_fast(20, MINUTE):
            return _errcode(45009, "api freq out of limit")
        if len(seen.json["markdown"]["content"].encode()) > 4_096:
            return _errcode(40058, "markdown.content exceed max length 4096")
        return None

    def accept(self) -> Reply:
        return Reply(200, {"errcode": 0, "errmsg": "ok"})


class Feishu(Chat):
    """200 for everything, with a `code`."""

    def refuse(self, seen: Seen) -> Reply | None:
        if self.is_too_fast(5, 1_000) or self.is_too_fast(100, MINUTE):
            return _code(11232, "frequency limited psm[lark.oapi.app_platform_runtime]")
        if self.secret is not None:
            stamp = seen.json.get("timestamp", "0")
            is_now = abs(seen.at // 1_000 - int(stamp)) < 3_600
            if not is_now or seen.json.get("sign") != _hmac(f"{stamp}\n{self.secret}", ""):
                return _code(19021, "sign match fail or timestamp is not within one hour from current time")
        if len(seen.body) > 20 << 10:
            return _code(9499, "Bad Request")
        if self.keyword not in _texts(seen.json["card"]):
            return _code(19024, "Key Words Not Found")
        return None

    def accept(self) -> Reply:
        return Reply(
            200, {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}
        )


MakeChat = Callable[..., Chat]


def _errcode(code: int, message: str) -> Reply:
    return Reply(200, {"errcode": code, "errmsg": message})


def _code(code: int, message: str) -> Reply:
    return Reply(200, {"code": code, "data": {}, "msg": message})


def _hmac(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()


def _texts(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(_texts(one) for one in value.values())
    if isinstance(value, list):
        return " ".join(_texts(one) for one in value)
    return value if isinstance(value, str) else ""
