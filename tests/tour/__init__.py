"""The tour: what is seen of each of twelve incidents, and how soon (docs/operations.md, "Incidents")."""
