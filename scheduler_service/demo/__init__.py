"""The demo service, its target and jobs, and a local cluster on Dapr."""
