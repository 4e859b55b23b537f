"""What the changelog says to those who upgrade is true."""

import re

from scheduler_service.persistence.history import schema as history
from scheduler_service.persistence.sql_cluster import schema as cluster
from scheduler_service.persistence.sqlite.schema import MIGRATIONS
from tests.unit.docs.pages import ROOT


def test_the_formats_are_those_of_the_code() -> None:
    """As the newest section that names them says. Whoever adds a migration says what an upgrade needs."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    said = {
        name: re.findall(pattern, text)[:1]
        for name, pattern in {
            "state": r"`state\.db` has format (\d+)",
            "history": r"history version (\d+)",
            "cluster": r"cluster are at migration (\d+)",
        }.items()
    }
    assert said == {
        "state": [str(len(MIGRATIONS))],
        "history": [history.MIGRATIONS.head],
        "cluster": [cluster.MIGRATIONS.head],
    }
