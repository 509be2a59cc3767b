"""Columns of readings: merging series, numbers to JSON text."""
