"""Placement: which unit lives on which master, at what price, and how it moves (pure)."""
