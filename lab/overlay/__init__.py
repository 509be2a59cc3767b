"""The overlay of brokers in virtual time, and OctopiA's experiments on it."""
