"""decide(): the state machine of a job. Pure."""
