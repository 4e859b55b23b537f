"""The conformance data on Dapr's actors: every row is shown by a test, or has a reason why it is none.

The reasons stand in `dapr_left_out.md` beside this file.
"""

import importlib
import re
from pathlib import Path
from typing import Any

from tests.shown import shown_by

HERE = Path(__file__).resolve().parent
REAL = HERE.parent / "sidecar" / "behaviours"
REASON = re.compile(r"^\| (da-\d{5}) \| (.+) \|$", re.MULTILINE)


def shown() -> set[str]:
    """The rows that tests show, on the real programs and over the SDK's routes."""
    names = [f"tests.sidecar.behaviours.{path.stem}" for path in sorted(REAL.glob("test_*.py"))]
    names.append("tests.conformance.hosts.test_actors")
    return {row for name in names for row in shown_by(importlib.import_module(name))}


def test_every_row_is_shown_or_has_a_reason(conformance: Any) -> None:
    """None is missing, none is in both, and no test speaks of a row that is not there."""
    rows = {row["id"] for row in conformance("dapr_actor_behaviours.jsonl")}
    reasons = dict(REASON.findall((HERE / "dapr_left_out.md").read_text(encoding="utf-8")))
    assert shown() | set(reasons) == rows
    assert shown() & set(reasons) == set()
    assert all(len(reason) > 40 for reason in reasons.values())
