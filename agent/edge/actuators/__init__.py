"""Actuators: drivers that put out what the node's clone computes."""
