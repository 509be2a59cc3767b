"""Homes: which master takes what a client publishes (RELOC), by the price of every placement."""
