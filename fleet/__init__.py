"""Everything that an operator runs."""
