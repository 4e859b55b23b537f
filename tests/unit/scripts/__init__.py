"""Tests of the start scripts."""
