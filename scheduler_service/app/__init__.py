"""The composition root: settings, adapters, host, API. The only room that knows all others."""

from scheduler_service.app.server import run_service

__all__ = ["run_service"]
