"""A fleet of real processes on this machine, and a load generator."""
