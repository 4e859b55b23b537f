"""The pull queues in SQL, in the file of one machine and in the database of a cluster."""
