"""Attacks whose effect on a bystander is measured: `python -m tests.bench.attacks [NAME …]`.

Each module of this package holds attacks, registered by `@attack` of `registry.py`; a new one is found by
itself.
"""
