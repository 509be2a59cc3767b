"""Click commands: `fleet image`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.grouped import Grouped
from fleet.cli.image_emulate import emulate
from fleet.cli.image_flash import flash
from fleet.cli.options import AS_JSON, FLEET, TEXT, Parsed
from fleet.common import exits
from fleet.release.target import PYTHON_OF

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name, value


SETTING = Parsed("name=value", _setting)


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def image() -> None:
    """Build card images, and write them to cards."""


@image.command()
@FLEET
@click.option(
    "--model",
    type=click.Choice(["pi3", "pi4", "zero2w"]),
    default="pi4",
    show_default=True,
    help="Which Pi it is for.",
)
@click.option(
    "--suite",
    type=click.Choice(list(PYTHON_OF)),
    default="bookworm",
    show_default=True,
    help="Debian's release.",
)
@click.option(
    "--mirror",
    type=TEXT,
    help="Where packages come from; by default the mirror of this host's apt.",
)
@click.option(
    "--release", type=TEXT, default="", help="Release of the agent; else one of these sources."
)
@click.option(
    "--read-only",
    is_flag=True,
    help="A root partition that is never written to: --set read_only=true.",
)
@click.option(
    "--set",
    "settings",
    type=SETTING,
    multiple=True,
    help="Value of a layer's variable; repeat it for more.",
)
@click.option("--size", "size_mib", type=int, help="Size in MiB, a power of two.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the image; by default images/MODEL-SUITE.img of the fleet's folder.",
)
@click.option(
    "--refresh", is_flag=True, help="Fetch Debian's newest packages, whatever the cache has."
)
@AS_JSON
def build(
    folder: Folder, settings: tuple[Any, ...], read_only: bool, as_json: bool, **options: Any
) -> int:
    """Build an image: Debian, the agent, and what a node needs, hardened.

    The first build takes minutes, the next one of the same packages less than one. Needs no root.

    Exit status: 0 done, 1 failed, 2 wrong usage.
    """
    from fleet.common.interrupts import as_interrupts
    from fleet.image import build as command
    from fleet.image.screen import stages

    values = {**dict(settings), **({"read_only": True} if read_only else {})}
    wanted = command.Wanted(values=values, **options)
    with as_interrupts(), stages() as say:
        manifest = command.build(folder, wanted, say)
    if as_json:
        import msgspec

        from fleet.terminal.output import json_text

        print(json_text(msgspec.json.encode(manifest)))
    else:
        path = wanted.output or folder.images / manifest.image
        print(f"{path}: {manifest.bytes >> 20} MiB, {len(manifest.packages)} packages")
        print(f"release {manifest.release}")
        print(f"sha256 {manifest.sha256}")
    return exits.DONE


@image.command("list")
@FLEET
@AS_JSON
def list_(folder: Folder, as_json: bool) -> int:
    """List the images in the fleet's folder.

    Exit status: 0 done, 2 wrong usage.
    """
    from fleet.image import build as command

    found = command.stored(folder)
    if as_json:
        import msgspec

        from fleet.terminal.output import json_text

        print(json_text(msgspec.json.encode(found)))
        return exits.DONE
    from fleet.terminal.screen import console, line, plain_table, show_table

    if not found:
        line(console(), "no images; fleet image build makes one")
        return exits.DONE
    table = plain_table("image", "model", "suite", "release", "MiB", left=4)
    for each in found:
        table.add_row(each.image, each.model, each.suite, each.release, str(each.bytes >> 20))
    show_table(console(), table)
    return exits.DONE


image.add_command(flash)
image.add_command(emulate)
