"""Sampling: reads sensors on schedule, checks and stores the readings."""
