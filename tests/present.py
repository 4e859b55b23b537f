"""What a test looks up and must find."""

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value. Raises AssertionError where there is none."""
    assert value is not None
    return value
