"""An open database, and what is left of it once it is closed."""

import pytest

from scheduler_service.persistence.history.database import HistoryDatabase


@pytest.mark.parametrize("kind", ["reading", "writing_once"])
@pytest.mark.parametrize("url", ["file", "postgresql"], indirect=True)
def test_what_is_in_use_is_closed_when_it_is_given_back(url: str, kind: str) -> None:
    """What another thread does may outlive the database, as where a server stands still: nobody waits for it,
    and no connection is left to the collector."""
    database = HistoryDatabase(url=url)
    with getattr(database, kind)() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        database.close()
        database.close()
    with pytest.raises(Exception, match="clos"):
        raw.execute("SELECT 1")
