"""What changes the tables of older histories; new ones are made from the schema."""
