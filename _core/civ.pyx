"""Cluster index vectors."""
