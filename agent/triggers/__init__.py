"""Trigger expressions: when a round of readings is worth a message (pure)."""
