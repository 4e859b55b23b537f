"""What nodes share, on each database."""

from tests.unit.persistence.cluster_store import cluster_url, postgres_url, store

__all__ = ["cluster_url", "postgres_url", "store"]
