"""A fleet on hosts that really boot; `make test-hosts`, root only."""
