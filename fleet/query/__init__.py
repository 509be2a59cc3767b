"""Client commands: queries, watches, subscriptions, services, an IAD's status."""
