"""Tests over the whole service: what goes over the wire is what docs/spec.md says."""
