"""Watches: standing queries, each round of which is a query."""
