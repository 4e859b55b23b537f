"""The jobs in SQL: tables, claims of turns, groups of writes, and the store of a service or a node."""
