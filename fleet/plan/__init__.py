"""Capacity planning by simulation: `fleet plan`."""
