"""Small services that work with Punctual; docs/sdk.md says how to start them."""
