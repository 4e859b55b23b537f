"""Punctual: the job-scheduling service."""

__version__ = "0.2.0"
DISTRIBUTION = "punctual-scheduler"


def how_to_install(*extras: str, upgrade: bool = False) -> str:
    """The command for this distribution with `extras`: from a checkout, for no package index has it."""
    command = "pip install --upgrade" if upgrade else "pip install"
    return f"in a checkout of Punctual: {command} '.[{','.join(extras)}]'"
