"""Errors of the key store."""

from fleet.common.exits import CommandError


class KeyStoreError(CommandError):
    """One line: what is wrong with the key store, and what to do."""
