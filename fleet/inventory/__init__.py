"""The inventory: what a fleet consists of (fleet.toml), and what that makes of each host."""
