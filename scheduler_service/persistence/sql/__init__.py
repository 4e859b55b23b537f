"""What all SQL databases share: dialects, connections, migrations, and the catalogue of jobs."""
