"""Tests of the room of the console that serves it; those in a browser are in tests/console."""
