"""`python -m scheduler_service` and the console script `punctual`."""

import gc
import os
import sys

from scheduler_service.cli.main import run

# What a start loads is no garbage: not to look through it every 700 objects saves a tenth of the start.
COLLECT_AFTER = 100_000


def hold_standard_descriptors() -> None:
    """Opens /dev/null as each of the descriptors 0 to 2 that is closed, for worker processes as well.

    Else a database or a socket would get its number, and what is printed would be written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: those below are open
            assert opened == number
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


def main() -> None:
    """Runs the command line and exits with its code."""
    hold_standard_descriptors()
    gc.set_threshold(COLLECT_AFTER)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
