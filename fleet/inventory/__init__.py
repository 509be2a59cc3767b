"""The inventory (fleet.toml): its model, validation, and the files it yields for each host."""
