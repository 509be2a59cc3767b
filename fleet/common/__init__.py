"""What every command may use: exit statuses, locks, TOML, errors that nobody expected."""
