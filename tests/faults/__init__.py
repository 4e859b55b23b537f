"""What becomes of the work when processes die, disks fill up, clocks jump and targets misbehave."""
