"""Experiment: clones that move by themselves between real masters (Flock, live)."""
