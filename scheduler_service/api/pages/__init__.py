"""Pages for a browser: the front page, and the reference of the API; made here, without any other file."""

CONSOLE = "/console"
"""Where the console is served."""
