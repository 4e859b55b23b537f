"""The main program of the service that the demo kills: it ends with the process that has started it.

`python -m scheduler_service.demo.victim PORT FOLDER`, with a pipe as standard input that nobody writes to.
"""

import os
import sys
import threading

from scheduler_service.app.server import run_service
from scheduler_service.settings import load_settings


def main() -> None:
    """Serves on loopback until it is killed, or the other end of its standard input is closed."""
    port, folder = sys.argv[1:]
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    run_service(load_settings({"server.port": int(port), "store.data": folder}, {}))


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
