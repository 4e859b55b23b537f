"""When a job fires: zones, moments, durations, cron, timers, misfire, backoff. Pure."""
