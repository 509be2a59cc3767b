"""Sampling: sensors, when they are read, what becomes of a reading."""
