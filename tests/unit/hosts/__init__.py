"""The host: turns, alarms, calls in flight, notifications, recovery."""
