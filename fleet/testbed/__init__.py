"""A fleet of real processes on this machine, and load on it."""
