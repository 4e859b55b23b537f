"""Secrets that the API was given, sealed, in the database of the history."""
