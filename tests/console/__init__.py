"""The console in a real browser, on a real service; what serves it is tested in tests/unit/console."""
