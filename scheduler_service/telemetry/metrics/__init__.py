"""The figures of a process for Prometheus: counted in plain numbers, asked for at a scrape."""
