"""The audit: who changed what (SPEC section 14)."""
