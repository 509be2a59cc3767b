"""Queries at the master of a client: budgets, fan-out to IADs, answers."""
