"""The migrations of the history, run by `versions.upgrade`."""
