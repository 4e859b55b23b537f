"""What a newcomer runs, and the local cluster of `./scripts/cluster`."""
