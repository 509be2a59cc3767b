"""Shared by all commands: exit statuses, file locks, TOML, crash reports."""
