"""Finds Vue in the package that carries it, without importing that package."""

from importlib.util import find_spec
from pathlib import Path

from scheduler_service import how_to_install
from scheduler_service.console.errors import VueMissing

CARRIER = "trame_client"
PLACE = Path("module/vue3-www/vue.global.js")


def read_vue(carrier: str = CARRIER) -> bytes:
    """The script that defines `Vue`. Raises VueMissing, which says what to install."""
    spec = find_spec(carrier)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / PLACE
        if file.is_file():
            return file.read_bytes()
    raise VueMissing(
        f"the console needs Vue from the package {carrier}, which is not there; {how_to_install('console')}"
    )
