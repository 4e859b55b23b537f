"""The console: pages for a browser, which use the API and nothing else (SPEC section 17)."""
