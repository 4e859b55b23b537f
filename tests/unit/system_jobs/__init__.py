"""System jobs, those of alerts, and the review of all jobs."""
