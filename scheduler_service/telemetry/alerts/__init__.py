"""Alerts: what happens to all jobs and to the service, noted, summed up and told (SPEC section 14)."""
