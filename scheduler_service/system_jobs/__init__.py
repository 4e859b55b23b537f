"""The jobs that the product makes for itself (SPEC section 11): clean-up, declared timers, outbox, alerts."""
