"""Pauses between the tries of something that must succeed in the end."""

from collections.abc import Iterator
from typing import TypeVar

Pause = TypeVar("Pause", int, float)


def doubling_pauses(first: Pause, longest: Pause) -> Iterator[Pause]:
    """`first`, then twice the pause before, at most `longest`; without end. The unit is the caller's."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
