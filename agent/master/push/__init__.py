"""Alerts and messages: from nodes into the overlay, and to subscribers."""
