"""Click command: `fleet image emulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fleet.common import exits


@click.command()
@click.argument("card", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--machine",
    type=click.Choice(["virt", "raspi3b"]),
    default="virt",
    show_default=True,
    help="QEMU's general machine, which is faster, or its Pi 3 with the card in its slot.",
)
@click.option(
    "--ssh-port",
    type=click.IntRange(1, 65_535),
    default=2222,
    show_default=True,
    help="Port of this machine, at 127.0.0.1, that leads to the guest's sshd.",
)
@click.option(
    "--memory", "memory_mib", type=click.IntRange(256, 65_536), default=1024, show_default=True,
    help="MiB of virt; the Pi 3 has 1024.",
)  # fmt: skip
@click.option(
    "--threads",
    type=click.Choice(["multi", "single"]),
    default="multi",
    show_default=True,
    help="Whether the guest's processors run beside each other.",
)
@click.option(
    "--console",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for what the guest prints at its console; by default CARD.console.",
)
def emulate(card: Path, console: Path | None, **options: Any) -> int:
    """Boot the file CARD, as `fleet image flash` writes it, in QEMU.

    The guest finds this machine at 10.0.2.2. It runs until it switches itself off, or Ctrl-C, which
    is a power cut to it. The firmware of a Pi is not run: kernel, initramfs and device tree are
    taken from the boot partition as config.txt names them.

    Exit status: 0 the guest switched itself off, 2 it cannot be booted, 130 interrupted.
    """
    from fleet.common.interrupts import as_interrupts
    from fleet.image import emulate as command
    from fleet.terminal.output import say

    console = console or card.with_name(f"{card.name}.console")
    there = f"{card}: console in {console}, sshd at 127.0.0.1 port {options['ssh_port']}"
    with as_interrupts():
        command.run(card, command.Options(**options), console, lambda: say(there))
    return exits.DONE
