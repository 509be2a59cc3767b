"""Releases: what hosts run, made here for their machine and Python and kept with the fleet."""
