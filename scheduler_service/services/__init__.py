"""Services and their addresses."""
