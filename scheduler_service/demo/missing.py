"""Names what a cluster lacks; with the standard library alone, before anything is installed."""

import os
import sys

from scheduler_service.demo.programs import describe_missing, find_programs

EXIT_CODE = 2


def main() -> int:
    """Prints a line for each with its remedy; an exit code."""
    missing = describe_missing(find_programs(os.environ))
    if missing:
        print("\n".join(missing))
    return EXIT_CODE if missing else 0


if __name__ == "__main__":
    sys.exit(main())
