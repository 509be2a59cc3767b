"""`fleet demo`: a whole fleet on one machine."""
