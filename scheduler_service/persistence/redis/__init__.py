"""The jobs' state of the embedded host in a Redis database: one writer behind a lease, readers beside it."""
