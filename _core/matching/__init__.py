"""Content-based matching: intervals, their index, the engine; cluster index vectors."""
