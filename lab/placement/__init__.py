"""Experiments of placement: topics packed onto brokers (k-TCP), homes of clients (RELOC)."""
