"""Events of a node: triggers and faults, and their way to the master."""
