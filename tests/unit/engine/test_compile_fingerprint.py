"""Whether two definitions are the same (SPEC section 10)."""

from typing import Any

from client_sdk.models import parse_definition
from scheduler_service.engine.compile import fingerprint
from tests.unit.engine.rig import definition

URL = "http://target.test/"


def test_equal_definitions() -> None:
    """Compared with defaults filled in, without `active` and `jobId`; a null body is not an absent one."""

    def mark(**members: Any) -> bytes:
        return fingerprint(parse_definition(definition(**members)))

    base = mark()
    same: list[dict[str, Any]] = [
        {"active": 0},
        {"jobId": "other"},
        {"retry": []},
        {"leadSeconds": 0},
        {"timer": '{"period":"external"}'},
        {"request": [{"url": "http://target.test/run", "method": "post", "successCodes": ["2XX"]}]},
    ]
    assert {mark(**members) for members in same} == {base}
    other: list[dict[str, Any]] = [
        {"qos": 1},
        {"request": [{"url": "http://target.test/run", "body": None}]},
        {"notification": [{"url": URL}]},
    ]
    assert base not in {mark(**members) for members in other}
    assert mark(notification=[{"url": URL}]) != mark(notification=[{"url": URL, "body": None}])
