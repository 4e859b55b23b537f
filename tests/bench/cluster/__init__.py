"""Figures of a cluster: real Redis, PostgreSQL, placement, scheduler service and daprd, on loopback."""
