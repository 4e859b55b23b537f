"""The host of one machine: turns run in this process, over one store."""
