"""Keys, masking, and the address rules' vocabulary."""
