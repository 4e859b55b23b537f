"""What is asked of a SQLite file itself."""

from pathlib import Path

import pytest

from scheduler_service.persistence.sql.dialect import Durability
from scheduler_service.persistence.sql.sqlite import SqliteDialect


@pytest.mark.parametrize(("durability", "is_kept"), [("full", True), ("process", False)])
def test_whether_what_is_committed_is_kept_through_a_power_loss(
    tmp_path: Path, durability: Durability, is_kept: bool
) -> None:
    """As the file is opened: the log is synced at each commit, or left to the system (SPEC section 8)."""
    dialect = SqliteDialect.open(url=f"sqlite:///{tmp_path}/file", subject="a test", durability=durability)
    try:
        with dialect.reading() as connection:
            synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
            assert dialect.syncs(connection) is is_kept is (synchronous == 2)
            assert connection.exec_driver_sql("PRAGMA secure_delete").scalar_one() == 2  # FAST
    finally:
        dialect.engine.dispose()
