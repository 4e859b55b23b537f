"""The jobs' state of the embedded host in SQLite: one writer, and readers that never wait for it."""
