"""`fleet init`: creates a fleet's folder with a template inventory."""

from __future__ import annotations

import tomllib
from pathlib import Path

from msgspec import Struct

from agent.wire import config
from fleet.common import exits
from fleet.common.exits import CommandError
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.problems import problems
from fleet.inventory.template import template
from fleet.terminal import output

IGNORE_FILE = ".gitignore"
# keys has every secret, keys.* those from before a restored backup, masters copies of some; images
# may contain some. lake has measurements.
IGNORED = ("/keys/", "/keys.*/", "/masters/", "/images/", "/releases/", "/runs/", "/lake/")


class Made(Struct, frozen=True):
    """Output of `fleet init --json`."""

    folder: str
    files: tuple[str, ...]


def run(
    root: Path, name: str | None, iad: str, nodes: int, *, local_master: bool, as_json: bool
) -> int:
    """Write the inventory, and a .gitignore that excludes secrets; returns the exit status."""
    folder = Folder(root)
    text = template(name or _name(root), iad, nodes, local_master=local_master)
    if found := problems(config.parse(tomllib.loads(text), Inventory, folder.inventory.name)):
        raise CommandError(found[0])  # of the names that were given
    try:
        root.mkdir(parents=True, exist_ok=True)
        _write_new(folder.inventory, text)
        files = [str(folder.inventory)]
        if _ignore(root / IGNORE_FILE):
            files.append(str(root / IGNORE_FILE))
    except FileExistsError as error:
        raise CommandError(f"{error.filename} is there already, and stays as it is") from None
    except OSError as error:
        raise CommandError(f"{error.filename or root}: {error.strerror}") from None
    if as_json:
        output.write_json(Made(str(root), tuple(files)))
        return exits.DONE
    output.say(f"wrote {' and '.join(files)}")
    where = "" if root.resolve() == Path.cwd() else f"cd {root}, then "
    output.say(f"next: {where}write the addresses of your hosts into {folder.inventory.name},")
    output.say("fleet inventory check, then fleet keys init")
    return exits.DONE


def _name(root: Path) -> str:
    """The folder's name, reduced to what a fleet's name may contain."""
    letters = [
        c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in root.resolve().name
    ]
    return "".join(letters).strip(".-")[:64] or "fleet"


def _write_new(path: Path, text: str) -> None:
    """FileExistsError; OSError, and then there is no part of it, which the next call would leave as
    it is."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink()
            raise


def _ignore(path: Path) -> bool:
    """Add the entries to .gitignore; return whether any was missing."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    missing = [line for line in IGNORED if line not in there.splitlines()]
    if missing:
        ended = "" if not there or there.endswith("\n") else "\n"
        path.write_text(there + ended + "".join(f"{line}\n" for line in missing), encoding="utf-8")
    return bool(missing)
