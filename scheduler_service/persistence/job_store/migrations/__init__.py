"""What changes the shared tables of older clusters; new ones are made from the schema."""
