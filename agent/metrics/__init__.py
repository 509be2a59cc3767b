"""Prometheus metrics: families, counters and histograms, the HTTP page."""
