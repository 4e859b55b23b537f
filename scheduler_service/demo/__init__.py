"""The demo target and the demo jobs."""
