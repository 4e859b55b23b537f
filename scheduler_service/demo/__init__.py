"""The demo service, its target and its jobs."""
