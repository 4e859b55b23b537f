"""What the audit shows of a difference: no secret, and not too much (SPEC section 14)."""

from typing import Any

import msgspec

from scheduler_service.security.audited_changes import MOST_CHANGES, VALUE_BYTES, MaskedChanges
from scheduler_service.security.concealment import Concealment
from scheduler_service.security.masking import MASKED_HEADERS
from scheduler_service.security.secret_masks import NO_MASK, SecretMask

CHANGES = MaskedChanges(conceal=Concealment(headers=MASKED_HEADERS, members=("pin",)))
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
    )
    for place in places:
        for before, after in ((step(), step(**place)), (step(**place), step()), (step(**place), {})):
            text = msgspec.json.encode(CHANGES(before, after, NO_MASK)).decode()
            assert CANARY not in text, text
            assert '"pointer"' in text


def test_a_secret_of_which_a_part_is_hidden_anyway_is_hidden_whole() -> None:
    """A URL with a user, say: once that is hidden nobody finds the rest of the value any more."""
    value = "postgres://shop:PASS@db.intern/shop?password=abc"
    for place in ({"body": value}, {"url": value}, {"body": {"deep": [f"at {value}"]}}):
        text = repr(CHANGES(step(), step(**place), SecretMask([value])))
        assert [part for part in ("PASS", "db.intern", "abc") if part in text] == [], text


def test_a_difference_is_bounded() -> None:
    """A long value is cut, and of many places the first ones are shown."""
    before = {f"m{number}": 0 for number in range(MOST_CHANGES + 5)}
    after = dict.fromkeys(before, "x" * 10000)
    shown: Any = CHANGES(before, after, NO_MASK)
    assert shown["truncated"] is True
    assert len(shown["difference"]) == MOST_CHANGES
    assert all(len(one["after"]) <= VALUE_BYTES + 1 for one in shown["difference"])
    assert CHANGES(before, before, NO_MASK) == {"difference": []}


def test_no_begin_of_a_value_is_left_where_a_long_one_is_cut() -> None:
    """Of a secret that lies over the cut; one before it is hidden with the line, as a whole."""
    mask = SecretMask([CANARY])
    for before in range(VALUE_BYTES - len(CANARY) - 2, VALUE_BYTES):
        for value in ("x" * before + CANARY + "y" * 40, ["x" * before, CANARY, "y" * 40]):
            shown: Any = CHANGES({"body": None}, {"body": value}, mask)
            text = mask.text(shown["difference"][0]["after"])
            assert CANARY[:2] not in text, text
            assert len(text) <= VALUE_BYTES + 1
