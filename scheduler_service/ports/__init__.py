"""What a turn needs from outside, as protocols: one page a role."""
