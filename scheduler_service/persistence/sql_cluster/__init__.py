"""What several nodes share in one SQL database: catalogue, claims, kept answers, outbox, nodes."""
