"""The SDK of Punctual: wire models, client, worker and the in-process LiteJob."""
