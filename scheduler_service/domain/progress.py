"""Progress as a number: `20/60` and `30%` as a fraction (SPEC section 5)."""

import re

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_SHARE = re.compile(rf"{_NUMBER}/{_NUMBER}")
_PERCENT = re.compile(rf"{_NUMBER}%")
_PLACES = 4


def progress_fraction(progress: str | None) -> float | None:
    """From 0 to 1, with four places; more than 1 is cut to 1. None: `progress` has neither form."""
    if progress is None:
        return None
    if percent := _PERCENT.fullmatch(progress):
        return _divide(float(percent[1]), 100.0)
    if share := _SHARE.fullmatch(progress):
        return _divide(float(share[1]), float(share[2]))
    return None


def _divide(done: float, whole: float) -> float | None:
    return round(min(done / whole, 1.0), _PLACES) if whole else None
