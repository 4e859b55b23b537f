"""The conformance data: rows that others judge by too, in a folder beside the checkout.

A public clone has no such folder: tests that read it are skipped there, and the reason says so. Where
`CONFORMANCE_DATA` is set, as `.ci/run` does if the folder is there, a file that is missing is a failure.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

Row = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "conformance"
PROMISED = "CONFORMANCE_DATA"
MISSING = "the conformance data lies beside the checkout of its authors, in ../shared"


@cache
def rows(name: str) -> list[Row]:
    """The rows of one file, as `durations`, shared by all who read it; skips where the file is missing."""
    path = FOLDER / f"{name}.jsonl"
    if path.is_file():
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    if os.environ.get(PROMISED):
        pytest.fail(f"{path} is missing, and {PROMISED} promises it")
    pytest.skip(f"{path.name} is missing: {MISSING}")
