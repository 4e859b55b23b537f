"""Sends one HTTP request: resolve, guard the address, send. Never decides, never retries."""
