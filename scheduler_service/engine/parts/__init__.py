"""The parts of a step: how they are handed out, called or claimed, and brought together (SPEC section 13)."""
