"""From landing to tables: parsed, deduplicated, partitioned, committed."""
