"""Pages of the documentation, followed command by command."""
