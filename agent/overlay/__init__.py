"""OctopiA's overlay of brokers, pure: topology, advertisements, subscriptions, notifications."""
