"""The jobs' state of the embedded host: one SQLite file, one writer, readers that never wait for it."""
