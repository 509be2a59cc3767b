"""The market: the directory's content, estimation, negotiation (pure)."""
