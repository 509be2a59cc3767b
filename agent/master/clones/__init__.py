"""Clones of devices, and what these compute."""
