"""What a definition may say but hardly means: warnings beside the answer (SPEC sections 5, 6 and 7)."""

from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.rig import definition

URL = "http://target.test/"


def warnings(**members: Any) -> list[tuple[str, str]]:
    """(pointer, code) of everything that a definition is warned of."""
    compiled = compile_definition(parse_definition(definition(**members)), Surroundings())
    return [(one.pointer, one.code) for one in compiled.warnings]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"timer": {"dueTime": "5s", "period": ""}}, [("/timer/dueTime", "due_time_ignored")]),
        ({"timer": {"dueTime": "5s", "period": "external"}}, [("/timer/dueTime", "due_time_ignored")]),
        ({"notification": [{"url": URL}]}, []),
        ({"retry": [{"errorEquals": ["500", "lost"]}]}, [("/retry/0/errorEquals", "never_retried")]),
        ({"retry": [{"errorEquals": ["5XX", "Timeout"]}]}, [("/retry/0/errorEquals", "spelling")] * 2),
        ({"retry": [{"errorEquals": ["5xx", "*", "OUT_OF_STOCK", "418"]}]}, []),
        ({"checkUrl": URL}, [("/checkUrl", "check_ignored")]),
        ({"checkUrl": URL, "async": True}, []),
        (
            {"notification": [{"url": URL}, {"url": URL, "stateEquals": ["finalsucceed", "E7"]}]},
            [("/notification/1/stateEquals", "spelling")],
        ),
        (
            {"notification": [{"url": URL, "stateEquals": "finalSucceed"}]},
            [("/notification", "no_final_notification")],
        ),
        (
            {
                "notification": [
                    {"url": URL, "stateEquals": "finalSucceed"},
                    {"url": URL, "stateEquals": ["500", "finalFailed"]},
                ]
            },
            [],
        ),
    ],
)
def test_warnings(members: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Warnings have pointers into the definition, like problems."""
    assert warnings(**members) == expected


def test_a_warning_says_what_to_write() -> None:
    """The message names the remedy, and all that is missing."""
    posted = definition(retry=[{"errorEquals": "5XX"}], notification=[{"url": URL, "stateEquals": "500"}])
    texts = [one.message for one in compile_definition(parse_definition(posted), Surroundings()).warnings]
    assert "'5XX' is not an error code; write '5xx'" in texts
    assert any("no entry gets finalFailed and finalSucceed; add both to" in one for one in texts)
