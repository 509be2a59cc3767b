"""The operator's tools: the `fleet` command and everything behind it."""
