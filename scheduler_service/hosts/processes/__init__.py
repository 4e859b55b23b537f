"""One service in several processes, each with one shard of the jobs (docs/decisions/0018)."""
