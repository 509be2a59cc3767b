"""`fleet releases`: lists stored releases."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from msgspec import Struct

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.release import bundle, sources
from fleet.release.bundle import Bundle, ReleaseError
from fleet.terminal.output import write_json


class StoredBundle(Struct, frozen=True):
    """A bundle, for programs."""

    release: str
    machine: str
    python: str
    path: str
    bytes: int
    sha256: str
    commit: str  # of its sources; empty: unknown, or no commit yet
    changed: tuple[str, ...]  # files of its sources that differ from the commit


class StoredReleases(Struct, frozen=True):
    """The document of `fleet releases --json` and `fleet release build --json`."""

    sources: str  # release of the present sources; empty outside a checkout
    bundles: tuple[StoredBundle, ...]


def document(found: Iterable[Bundle], current: str) -> StoredReleases:
    """`found` as a document; `current` is the release of the present sources."""
    return StoredReleases(
        current,
        tuple(
            [
                StoredBundle(
                    each.release,
                    each.target.machine,
                    each.target.python,
                    str(each.path),
                    each.bytes,
                    each.sha256,
                    each.origin.commit if each.origin else "",
                    each.origin.changed if each.origin else (),
                )
                for each in found
            ]
        ),
    )


def current() -> str:
    """The release of the present sources; empty outside a checkout."""
    with contextlib.suppress(ReleaseError):
        return sources.read(sources.checkout()).release
    return ""


def run(folder: Folder, *, as_json: bool) -> int:
    """Print the releases in `folder`; returns the exit status."""
    found = document(bundle.stored(folder), current())
    if as_json:
        write_json(found)
        return exits.DONE
    if not found.bundles:
        print("no release is stored; `fleet release build` makes one")
        return exits.DONE
    show(found)
    return exits.DONE


def show(found: StoredReleases) -> None:
    """Print a table."""
    from rich.table import Table

    from fleet.terminal.screen import console, show_table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("release", "for", "Python", "MB", "commit"):
        table.add_column(heading, justify="right" if heading == "MB" else "left", no_wrap=True)
    for each in found.bundles:
        name = f"{each.release} (these sources)" if each.release == found.sources else each.release
        size = f"{each.bytes / 1e6:.1f}"
        commit = each.commit[:12]
        if each.changed:
            commit = f"{commit or 'none'} and changes"
        table.add_row(name, each.machine, each.python, size, commit)
    show_table(console(), table)
