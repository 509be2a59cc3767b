"""Implementation of `fleet keys backup` and `restore`: reads the passphrase, prints the result."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import click

from fleet.common import exits
from fleet.common.files import first_line
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.keys import backup as files
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.terminal import output

MAX_PASSPHRASE = 65_536


def backup(folder: Folder, file: Path, passphrase_file: Path | None) -> int:
    """Write a backup; the exit status."""
    store = Store(folder)
    files.require_possible(store, file)  # before anybody types a passphrase in vain
    passphrase = _passphrase(passphrase_file, twice=True)
    count = files.backup(store, file, passphrase)
    sys.stdout.write(f"{file}: {count} files of keys; without the passphrase they are lost\n")
    return exits.DONE


def restore(folder: Folder, file: Path, passphrase_file: Path | None, *, replace: bool) -> int:
    """Restore a backup; the exit status."""
    fleet = load(folder)  # before anything changes
    if not file.exists():  # before anybody types a passphrase in vain
        raise KeyStoreError(f"{file}: {os.strerror(errno.ENOENT)}")
    passphrase = _passphrase(passphrase_file, twice=False)
    count = files.restore(folder, file, passphrase, replace=replace, say=output.say)
    store = Store(folder)
    store.write_known_hosts(fleet)
    done = f"{count} files of keys, from {file}" if count else "the keys of the backup are there"
    sys.stdout.write(f"{folder.keys}: {done}\n")
    store.require_pins(fleet)
    return exits.DONE


def _passphrase(file: Path | None, *, twice: bool) -> str:
    if file is not None:
        try:
            return first_line(file, MAX_PASSPHRASE)
        except OSError as error:
            raise KeyStoreError(f"{file}: {error.strerror}") from None
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --passphrase-file")
    asked: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=twice, err=True)
    return asked
