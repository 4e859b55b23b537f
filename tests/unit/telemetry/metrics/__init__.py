"""Tests of the figures of a process."""
