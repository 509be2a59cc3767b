"""What contradicts itself in an inventory: one subject a file, each a generator of lines."""
