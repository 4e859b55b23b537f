"""The tables that 0.1.0 made: history, services and declared timers. Older ones were never released."""

revision = "0002"
down_revision = None
