"""Versions: what is missing or too old is named."""

import pytest

from scheduler_service.app.doctor.versions import examine_versions, find_wrong
from tests.unit.app.doctor.subjects import states, subject


@pytest.mark.anyio
async def test_what_is_installed_will_do() -> None:
    """With the extras that the settings need."""
    findings = await examine_versions(subject(store__url="redis://127.0.0.1:1/0"))
    assert set(states(findings).values()) == {"ok"}
    assert any("base, service, redis" in one.detail for one in findings)


def test_packages_that_will_not_do_are_named() -> None:
    """Missing or too old; marks and extras of a requirement are left aside."""
    given = [
        "httpx>=0.28",
        "httpx>=999; python_version > '3'",
        "dapr[fastapi]==1.19.*; extra == 'dapr'",
        "no-such-package-at-all>=1",
    ]
    wrong = list(find_wrong(given))
    assert [text.partition(" ")[0] for text in wrong if not text.startswith("dapr")] == [
        "httpx",
        "no-such-package-at-all",
    ]
    assert "999 or later is needed" in wrong[0]
