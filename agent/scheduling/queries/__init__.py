"""Queries at the master that a client asks: budgets, fan-out to IADs, answers."""
