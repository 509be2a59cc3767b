"""Commands as the user would type them here."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def fleet_command() -> str:
    """This command as the user would type it here."""
    return _program(Path(sys.argv[0]))


def typed(command: Sequence[str]) -> str:
    """A command line as the user would type it here."""
    program, *rest = command
    return shlex.join([_program(Path(program)), *rest])


def _program(path: Path) -> str:
    """By its name if the shell finds this one."""
    path = path.absolute()
    found = shutil.which(path.name)
    if found is not None and Path(found).absolute() == path:
        return path.name
    return place(path)


def place(path: Path) -> str:
    """A path from here, if it is below."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
