"""Commands that talk to a master: queries, watches, subscriptions, services, its state."""
