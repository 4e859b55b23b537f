"""The history: what became of every execution, in a database of its own (SPEC sections 10 and 12)."""
