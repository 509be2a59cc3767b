"""Naive twins of `_core`: the plainest Python that has the same meaning, nothing shared with it."""
