"""Alerts at a master, pure: spool, inboxes, webhooks, open faults, raised triggers."""
