"""Queues: a stable EDF heap, and the queueing policies on top."""
