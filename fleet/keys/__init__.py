"""Keys of a fleet: made, kept, rotated, revoked, backed up (docs/run/keys.md)."""
