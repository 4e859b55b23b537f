"""Punctual: the job-scheduling service."""

__version__ = "0.1.0"
