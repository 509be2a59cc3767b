"""Co-location: the predicted latency of processors that share a master's cores."""
