"""Ingestion from the landing zone into tables: parse, deduplicate, partition, commit."""
