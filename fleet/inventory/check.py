"""`fleet inventory check`: reports every error of an inventory at once."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Struct

from agent.wire import config
from agent.wire.config import ConfigError
from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.problems import problems, warnings
from fleet.terminal import output


class Counts(Struct, frozen=True):
    """How many there are of each."""

    iads: int
    nodes: int
    groups: int
    persons: int


class Checked(Struct, frozen=True):
    """The document of `fleet inventory check --json`. Without `counts` the file could not be
    read."""

    file: str
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    counts: Counts | None


def run(folder: Folder, *, as_json: bool) -> int:
    """Print the errors; returns the exit status."""
    found = check(folder)
    if as_json:
        output.write_json(found)
    else:
        for line in found.problems:
            sys.stdout.write(f"{line}\n")
        for line in found.warnings:
            sys.stdout.write(f"warning: {line}\n")
        sys.stdout.write(f"{_summary(found)}\n")
    return exits.USAGE if found.problems else exits.DONE


def check(folder: Folder) -> Checked:
    """The errors of the inventory in `folder`."""
    file = str(folder.inventory)
    try:
        fleet = config.load(folder.inventory, Inventory)
    except ConfigError as error:
        return Checked(file, (str(error).removeprefix(f"{file}: "),), (), None)
    return Checked(
        file,
        (*problems(fleet), *_missing_files(folder, fleet)),
        tuple(warnings(fleet)),
        Counts(
            len(fleet.iad), sum(len(i.node) for i in fleet.iad), len(fleet.group), len(fleet.person)
        ),
    )


def _missing_files(folder: Folder, fleet: Inventory) -> list[str]:
    key = folder.root / Path(fleet.ssh.key).expanduser()
    # If only the public half is there, the SSH agent is asked.
    if fleet.ssh.key and not any(
        each.is_file() for each in (key, key.with_name(f"{key.name}.pub"))
    ):
        return [f"ssh.key: there is no file {fleet.ssh.key}; leave it out for the fleet's own key"]
    return []


def _summary(found: Checked) -> str:
    wrong = _number(len(found.problems), "problem") if found.problems else "no problem"
    if found.counts is None:
        return f"{found.file}: {wrong}"
    counts = found.counts
    parts = [_number(counts.iads, "IAD"), _number(counts.nodes, "node")]
    parts += [_number(counts.groups, "group"), _number(counts.persons, "person")]
    return f"{found.file}: {', '.join(parts)}; {wrong}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
