"""Trigger expressions, pure: text to a condition that holds or not for what an area answered."""
