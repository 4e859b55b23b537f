"""What must not be written: secrets found and masked."""
