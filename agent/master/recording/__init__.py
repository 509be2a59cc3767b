"""Records of what a master did: its log, its metrics."""
