"""The folder of a service that keeps its jobs in SQLite: its file, locks, snapshots, damage, old formats."""
