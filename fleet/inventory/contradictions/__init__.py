"""Validation rules of the inventory: one subject per module, each a generator of error lines."""
