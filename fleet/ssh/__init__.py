"""SSH connections to the hosts of a fleet, one or many."""
