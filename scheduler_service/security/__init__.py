"""Callers and their roles; secrets found and masked before anything is written."""
