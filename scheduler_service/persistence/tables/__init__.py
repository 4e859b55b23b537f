"""Tables beside the history, in its database."""
