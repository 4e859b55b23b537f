"""Actor state, catalogue and history on disk."""
