"""Tests of the registry of services."""
