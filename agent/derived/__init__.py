"""What a home master keeps for devices with a clone: derived values, and the last known ones."""
