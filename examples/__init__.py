"""Small services that work with Punctual; docs/sdk.md tells how to start them."""
