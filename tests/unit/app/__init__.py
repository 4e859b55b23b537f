"""What settings make of a service."""
