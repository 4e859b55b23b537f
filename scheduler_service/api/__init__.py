"""REST in: authenticate, validate, translate, deliver, answer."""

CONSOLE = "/console"
"""Where the console is served."""
