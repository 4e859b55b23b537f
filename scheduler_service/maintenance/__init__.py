"""Backup, repair and formats of a data folder (`punctual db`), and the examination (`punctual doctor`)."""
