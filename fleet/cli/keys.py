"""Click commands: `fleet keys`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli import completion
from fleet.cli.grouped import Grouped
from fleet.cli.options import AS_JSON, FLEET, NAME, TEXT, YES, Parsed, hosts_options

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder

MAX_OVERLAP_S = 366 * 86_400
A_PATH = click.Path(path_type=Path)


def _duration(text: str) -> float:
    from fleet.terminal.units import parse_duration

    return parse_duration(text)


def _lifetime(text: str) -> float:
    seconds = _duration(text)
    if not 86_400 <= seconds <= 3_650 * 86_400:
        raise ValueError(f"{text!r} is no lifetime of a key; it is from 1d to 3650d")
    return seconds


def _overlap(text: str) -> float:
    seconds = _duration(text)
    if seconds > MAX_OVERLAP_S:
        raise ValueError(f"{text!r} is too long for two keys of a party; it is at most 366d")
    return seconds


LIFETIME = click.option(
    "--lifetime",
    "lifetime_s",
    type=Parsed("duration", _lifetime),
    default="365d",
    show_default=True,
    help="Age at which new keys should be replaced; nothing stops working then.",
)
PASSPHRASE = click.option(
    "--passphrase-file",
    type=A_PATH,
    help="File whose first line is the passphrase; else it is asked for on the terminal.",
)


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def keys() -> None:
    """Make, rotate, revoke and back up the keys of a fleet.

    All secrets are in the fleet's folder, below keys/, and nowhere else but on the host that each
    is for: docs/run/keys.md.
    """


@keys.command("init")
@FLEET
@LIFETIME
@AS_JSON
def init_command(folder: Folder, lifetime_s: float, as_json: bool) -> int:
    """Make the keys that are missing, and write known_hosts. Nothing is replaced.

    CURVE keys for every master, node and person, an SSH host key for every host, and the SSH key
    that `fleet` logs in with.
    """
    from fleet.keys import init as command

    return command.run(folder, lifetime_s, as_json=as_json)


@keys.command()
@FLEET
@AS_JSON
def show(folder: Folder, as_json: bool) -> int:
    """Print whose keys there are, until when, and which were revoked. No secret is shown.

    Warns of keys that expire within 30 days.
    """
    from fleet.keys import show as command

    return command.run(folder, as_json=as_json)


@keys.command()
@FLEET
@hosts_options
@click.option(
    "--person",
    "persons",
    type=NAME,
    multiple=True,
    help="This person's keys; repeat it for more.",
)
@click.option(
    "--without",
    type=TEXT,
    metavar="PATTERN[,PATTERN]",
    default="",
    help="Hosts not to wait for. They keep their keys, as do a master's nodes, and reach others "
    "again after their next fleet deploy.",
)
@click.option(
    "--overlap",
    "overlap_s",
    type=Parsed("duration", _overlap),
    help="How long old and new keys are valid together, before and after the switch; by default "
    "30s.",
)
@LIFETIME
@click.option(
    "--parallel",
    type=click.IntRange(1, 500),
    default=50,
    show_default=True,
    help="Hosts at a time.",
)
@YES
@AS_JSON
def rotate(
    folder: Folder,
    iads: tuple[str, ...],
    groups: tuple[str, ...],
    limit: str,
    persons: tuple[str, ...],
    without: str,
    overlap_s: float | None,
    lifetime_s: float,
    parallel: int,
    yes: bool,
    as_json: bool,
) -> int:
    """Rotate keys: no agent restarts, and no query is lost.

    By default all masters, all nodes and this command itself. A rotation that was
    interrupted, or held up by hosts that are down, continues when this is run again.

    Exit status: 0 done, 1 held up by hosts, 5 nothing done.
    """
    from fleet.rollout.keys import rotate_command as command

    asked = command.Asked(iads, groups, limit, persons, without, overlap_s)
    return command.run(folder, asked, lifetime_s, parallel, yes=yes, as_json=as_json)


@keys.command(short_help="Revoke the keys of a host or person, within seconds.")
@click.argument("name", type=TEXT, shell_complete=completion.HOSTS)
@FLEET
@click.option("--reason", type=TEXT, default="", help="Kept with the revocation.")
@YES
@AS_JSON
def revoke(folder: Folder, name: str, reason: str, yes: bool, as_json: bool) -> int:
    """Revoke the keys of a host (iad4/n3) or person: masters refuse them within seconds.

    Exit status: 0 done, 1 some hosts could not be told.
    """
    from fleet.rollout.keys import revoke as command

    return command.run(folder, name, reason, yes=yes, as_json=as_json)


@keys.command()
@click.argument("name", type=TEXT, shell_complete=completion.HOSTS)
@FLEET
def reinstate(folder: Folder, name: str) -> int:
    """Give a revoked host or person new keys. The former ones stay revoked."""
    from fleet.keys import reinstate as command

    return command.run(folder, name)


@keys.command(short_help="Pin the SSH host key that a host has already.")
@click.argument("host", type=TEXT, shell_complete=completion.HOSTS)
@FLEET
@click.option(
    "--fingerprint",
    type=TEXT,
    metavar="SHA256:…",
    help="The fingerprint that the host's own console shows.",
)
@click.option(
    "--from-file", "file", type=A_PATH, help="A known_hosts file that has the host's key."
)
def adopt(folder: Folder, host: str, fingerprint: str | None, file: Path | None) -> int:
    """Pin the SSH host key that a host has already, such as one with a Debian of its own, or a
    jump host."""
    from fleet.rollout.keys import adopt as command

    if fingerprint is not None and file is not None:
        raise click.UsageError("give either --fingerprint or --from-file")
    return command.run(folder, host, fingerprint, file)


@keys.command(short_help="Write the keys that a person needs into a folder.")
@click.argument("person", type=TEXT)
@click.argument("into", metavar="INTO", type=A_PATH)
@FLEET
def export(folder: Folder, person: str, into: Path) -> int:
    """Write what a person needs into the folder INTO: their secret keys, the masters' public keys.

    Hand it over by a way that you trust, then delete it.
    """
    from fleet.keys import export as command

    return command.run(folder, person, into)


@keys.command()
@click.argument("file", type=A_PATH)
@FLEET
@PASSPHRASE
def backup(folder: Folder, file: Path, passphrase_file: Path | None) -> int:
    """Write all keys to FILE, encrypted with a passphrase."""
    from fleet.cli import keys_backup as command

    return command.backup(folder, file, passphrase_file)


@keys.command()
@click.argument("file", type=A_PATH)
@FLEET
@PASSPHRASE
@click.option("--replace", is_flag=True, help="Also where there are other keys; they are kept.")
def restore(folder: Folder, file: Path, passphrase_file: Path | None, replace: bool) -> int:
    """Restore keys from a backup.

    Exit status: 0 done, 2 wrong passphrase or damaged file, 3 there are other keys.
    """
    from fleet.cli import keys_backup as command

    return command.restore(folder, file, passphrase_file, replace=replace)
