"""Tests over real processes: the command line, the service, the demo, and what the documentation shows."""
