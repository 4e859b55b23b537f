"""One service in several processes: each of them has a share of the jobs (docs/decisions/0018)."""
