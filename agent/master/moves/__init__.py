"""Units that move live between masters: topics, homes of nodes and subscribers."""
