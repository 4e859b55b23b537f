"""Schedulers that do the same work: each a program of its own, with its own packages."""
