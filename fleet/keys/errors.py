"""Errors of the key store."""

from fleet.common.exits import CommandError


class KeyStoreError(CommandError):
    """The key store cannot be used; one line says what is wrong and what to do."""
