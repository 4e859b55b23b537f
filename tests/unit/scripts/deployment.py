"""The files in `deploy`, read as Kubernetes and a process read them."""

import re
from itertools import pairwise
from typing import Any

import yaml

from tests.unit.docs.pages import ROOT

CHART = ROOT / "deploy" / "helm" / "punctual"
MANIFEST = ROOT / "deploy" / "kubernetes" / "punctual.yaml"
VERSIONS = ("1.29", "1.34")
KEY = "0123456789abcdef"
SECRETS = {
    "server-key": KEY,
    "database-url": "postgresql://punctual:secret@db.example/punctual",
    "token": "fedcba9876543210",
    "redis-password": "",
}


def parts(text: str) -> dict[str, Any]:
    """kind → object; each kind is there once."""
    found = [one for one in yaml.safe_load_all(text) if one]
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def sidecar_options(command: list[str]) -> dict[str, str]:
    """option → its value, "true" for a switch."""
    found = {}
    for word, following in pairwise([*command, "--"]):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value or ("true" if following.startswith("--") else following)
    return found


def environ_of(node: dict[str, Any]) -> dict[str, str]:
    """What the process sees: references by the secret of the page, fields of the pod by their paths."""
    found: dict[str, str] = {}
    for one in node["env"]:
        origin = one.get("valueFrom", {})
        if "secretKeyRef" in origin:
            found[one["name"]] = SECRETS[origin["secretKeyRef"]["key"]]
        elif "fieldRef" in origin:
            found[one["name"]] = origin["fieldRef"]["fieldPath"].replace(".", "-")
        else:
            found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], one["value"])
    return found
