"""How Alembic runs the migrations of any of the databases; their scripts are beside the tables."""
