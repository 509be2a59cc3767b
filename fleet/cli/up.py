"""Click commands: `fleet up` and `fleet down`."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.options import AREA, INTERVAL, TEXT


@click.command(short_help="Start a master, a node and the live page on this machine.")
@click.option(
    "--sensor",
    type=TEXT,
    default="replay",
    show_default=True,
    metavar="DRIVER[:WHICH]",
    help="What the node reads: a recorded room (replay:413), dht22:D4, iio:bme280, "
    "serial_line:/dev/ttyUSB0, synthetic, or a driver of your own.",
)
@click.option(
    "--set",
    "settings",
    type=TEXT,
    metavar="NAME=VALUE",
    multiple=True,
    help="An option of the driver, as its README says. Repeat for more.",
)
@click.option("--every", "interval_s", type=INTERVAL, help="Time between two readings.")
@click.option("--area", type=AREA, help="Where the sensor is; by default home/room.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/up"),
    show_default=True,
    help="Folder of readings, configurations and logs; an existing one is continued.",
)
@click.option("--foreground", is_flag=True, help="Stay in this terminal; Ctrl-C ends it.")
def up(
    sensor: str,
    settings: tuple[str, ...],
    interval_s: float | None,
    area: str | None,
    directory: Path,
    foreground: bool,
) -> int:
    """Start a master, a node and the live page on this machine, until fleet down.

    \b
    fleet up
    fleet up --sensor dht22:D4 --area home/kitchen

    It keeps running when the terminal closes. Exit status: 0 it answers, 1 failed, 2 wrong usage,
    130 interrupted.
    """
    from fleet.up import sensor as sensors
    from fleet.up import up as command

    try:
        found = sensors.sensor(sensor, map(sensors.setting, settings), interval_s)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    every = () if interval_s is None else (f"--every={interval_s}s",)
    chosen = (f"--sensor={sensor}", *(f"--set={each}" for each in settings), *every)
    options = command.Options(
        directory, found, area or sensors.area_of(found), sensors.node_of(sensor), chosen
    )
    return command.serve(options) if foreground else command.up(options)


@click.command()
def down() -> int:
    """End what fleet up started; its readings stay in its folder.

    Exit status: 0 ended, 1 failed, 5 nothing was running.
    """
    from fleet.up import up as command

    return command.down()
