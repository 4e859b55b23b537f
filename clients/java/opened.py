"""Reads the description of the API, and writes it as the generator for Java can read it.

Its models send each default, which would win over those of a tenant or service: the defaults are left out. It
cannot write unions: a value of several types is left open.
"""

import json
import sys
from typing import Any

NULL = {"type": "null"}


def opened(schema: Any) -> Any:
    """`schema` without its unions and defaults."""
    if isinstance(schema, list):
        return [opened(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != NULL]
    if len(kinds) > 1 or schema == NULL:
        return {}
    return {name: opened(one) for name, one in schema.items() if name != "default"}


json.dump(opened(json.load(sys.stdin)), sys.stdout)
