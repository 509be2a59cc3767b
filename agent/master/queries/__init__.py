"""Queries, tasks and watches."""
