"""Punctual beside other schedulers, on the same work and target: `python -m tests.bench.compare`."""
