"""The demo target (bare ASGI), the demo jobs that use it, and the lines that tell how they end."""
