"""Experiments of placement: topics packed onto brokers (k-TCP)."""
