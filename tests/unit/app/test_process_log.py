"""The log of a process takes the lines of its libraries."""

import json
import subprocess
import sys


def test_lines_of_libraries_have_what_is_bound() -> None:
    """In a process of its own, since there is one log of libraries in each."""
    script = (
        "import logging; from scheduler_service.app.process_log import log_of; "
        "from scheduler_service.settings import Settings; "
        "log = log_of(Settings(), worker=2); logging.getLogger('lib').warning('trouble'); log.flush()"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (line,) = map(json.loads, ran.stderr.splitlines())
    assert (line["event"], line["logger"], line["worker"]) == ("library_warned", "lib", 2)
