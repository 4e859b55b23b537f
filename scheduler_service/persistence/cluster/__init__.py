"""What the nodes of a cluster share beside the jobs: nodes, registry, queues, rates and events."""
