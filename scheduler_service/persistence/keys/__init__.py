"""Keys of callers in the database of the history."""
