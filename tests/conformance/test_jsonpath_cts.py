"""The compliance suite of RFC 9535, all of it (SPEC section 4)."""

from typing import Any

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.json_values import as_json
from scheduler_service.language.jsonpath import Missing, compile_path, evaluate


def test_every_row_of_the_compliance_suite(conformance: Any) -> None:
    """RFC 9535: invalid selectors are refused, valid ones find one of the listed results."""
    rows = conformance("jsonpath_cts.jsonl")
    wrong = [
        row["name"] for row in rows if not (is_refused(row) if row.get("invalid_selector") else is_right(row))
    ]
    assert len(rows) == 444
    assert wrong == []


def is_refused(row: dict[str, Any]) -> bool:
    with pytest.raises(ExpressionError):
        compile_path(row["selector"])
    return True


def is_right(row: dict[str, Any]) -> bool:
    path = compile_path(row["selector"])
    found = evaluate(path, row["document"])
    if path.singular:
        found = [] if isinstance(found, Missing) else [found]
    return as_json(found) in [as_json(result) for result in row.get("results", [row.get("result")])]
