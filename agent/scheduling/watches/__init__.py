"""Watches: standing queries, each round of which is an ordinary query."""
