"""Handover of a unit between two masters: leases, fenced epochs; a state machine for each side."""
