"""Everything the environment may say; read once, refused when wrong."""
