"""Commands in this process, and answers to them."""

import json
from collections.abc import Callable
from typing import Any

from tests.http_program import Said

Ran = Callable[..., tuple[int, str, str]]
"""Runs a command in this process; what it gives is the exit code, the output, and the messages."""


def enveloped(data: Any, status: int = 200) -> Said:
    """An answer as a scheduler writes it."""
    body = json.dumps({"resp_code": status, "data": data}).encode()
    return Said(status, body, {"Content-Type": "application/json"})
