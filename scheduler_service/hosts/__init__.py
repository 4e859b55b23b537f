"""Where turns run, and the one order of I/O of a turn."""
