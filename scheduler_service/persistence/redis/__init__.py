"""The jobs' state of the embedded host in Redis: one writer with a lease, and readers."""
