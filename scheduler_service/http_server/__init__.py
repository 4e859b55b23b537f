"""The HTTP/1.1 server: bounded connections, and requests as calls of an ASGI application."""
