"""Attacks on a running service: what a stranger sends, and what it may not do to others."""
