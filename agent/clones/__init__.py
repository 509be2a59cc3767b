"""Clones of devices, at their home master: the anchor of each."""
