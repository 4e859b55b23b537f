"""What the tests examine, and the findings by their checks."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedService
from scheduler_service.settings import load_settings


def subject(folder: Path | None = None, *, is_node: bool = False, **settings: Any) -> ExaminedService:
    """Settings by name, dots as `__`."""
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return ExaminedService(loaded=load_settings(given, {}), folder=folder, is_node=is_node)


def states(findings: Iterable[DoctorFinding]) -> dict[str, str]:
    """check → state; the worst of those of one check. What is not ok has a remedy, all else none."""
    order = ("ok", "warning", "failed")
    found: dict[str, str] = {}
    for one in findings:
        assert bool(one.remedy) is (one.state != "ok"), one
        found[one.check] = max(found.get(one.check, "ok"), one.state.value, key=order.index)
    return found
