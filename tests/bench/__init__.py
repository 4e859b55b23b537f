"""Figures: programs that measure, run by hand, never asserted on in the test suite."""
