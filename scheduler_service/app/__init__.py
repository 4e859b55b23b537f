"""The composition root: settings, adapters, host, API. The only room that knows all others.

It imports nothing itself: a worker process loads no web framework (`worker_main`).
"""
