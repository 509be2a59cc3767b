"""Processes killed under load, and who notices what."""
