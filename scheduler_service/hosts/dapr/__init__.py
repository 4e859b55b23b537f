"""The host of a node in a cluster: each job is an actor behind a Dapr sidecar (docs/decisions/0009)."""
