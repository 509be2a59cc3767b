"""`fleet demo`: the main job on one machine."""
