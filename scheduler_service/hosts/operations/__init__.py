"""Long work on many things: it runs here, whoever asked for it."""
