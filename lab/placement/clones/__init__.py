"""Flock's experiments: clones that move by themselves, by the paper's rule and by ours."""
