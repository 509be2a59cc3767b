"""`fleet lab …`: runs the experiments of lab/ if they are installed."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from fleet.cli.grouped import Grouped
from fleet.common.exits import USAGE, CommandError


class NoLabError(CommandError):
    """The experiments are not installed."""

    status = USAGE


class Experiments(Grouped):
    """A group whose commands are those of lab/cli.py, which is imported when one is wanted."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """By name. NoLabError."""
        if find_spec("lab") is None:
            raise NoLabError(
                "the experiments are not installed; they are in a checkout of the sources: "
                "run make setup there, then its .venv/bin/fleet lab"
            )
        # Not an import statement: nothing in fleet needs lab.
        found: click.Group = import_module("lab.cli").lab
        return found.commands

    @commands.setter
    def commands(self, value: Any) -> None:
        """Nothing: click sets an empty one."""


lab = Experiments(name="lab", help="Experiments with fleets of processes on this machine.")
