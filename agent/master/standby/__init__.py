"""Units that outlive their master: leases, checkpoints, taking over."""
