"""Keys on their way to hosts: pushed, rotated, revoked, pinned."""
