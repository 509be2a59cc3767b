"""Topics: what they take in, what they put out, and what of it is kept; all pure."""
