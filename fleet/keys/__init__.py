"""Keys of a fleet: generation, storage, rotation, revocation, backup (docs/run/keys.md)."""
