"""Planners of placement, and the latency model that they ask."""
