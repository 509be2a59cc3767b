"""A home master's store for devices with a clone: derived values, and the last known ones."""
