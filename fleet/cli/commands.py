"""The root click group of `fleet`. A command's implementation is imported when it runs, so that
``--help`` stays fast."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli import completion
from fleet.cli.about import areas, channels, services
from fleet.cli.area_option import areas_to
from fleet.cli.clone import clone
from fleet.cli.connecting import connecting
from fleet.cli.deploy import deploy, replace, rollback
from fleet.cli.discover import discover
from fleet.cli.export import export
from fleet.cli.gateway import gateway
from fleet.cli.grouped import Grouped
from fleet.cli.image import image
from fleet.cli.inventory import init, inventory
from fleet.cli.keys import keys
from fleet.cli.lab import lab
from fleet.cli.lake import lake, report
from fleet.cli.operate import doctor, exec_, logs, reboot, status
from fleet.cli.options import (
    CHANNELS,
    ENDED,
    OBJECTIVE,
    SEED,
    SERIES,
    SERVICE,
    Number,
    answer_timeout,
    last,
    run_directory,
)
from fleet.cli.placement import placement
from fleet.cli.placement_model import follow, measure, train
from fleet.cli.plan import plan
from fleet.cli.release import release, releases
from fleet.cli.service import service
from fleet.cli.subscribe import subscribe
from fleet.cli.topic import topic
from fleet.cli.up import down, up
from fleet.cli.watch import watch
from fleet.common import exits

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles
    from agent.wire.base import QueryForm


HEADINGS = {
    "Try it": ("demo", "up", "down"),
    "Query and subscribe": (
        *("query", "watch", "subscribe", "areas", "channels", "services", "export"),
    ),
    "Set up": (
        *("init", "inventory", "discover", "keys", "image", "release", "releases"),
        *("deploy", "rollback", "replace", "gateway"),
    ),
    "Run a fleet": ("status", "doctor", "logs", "exec", "reboot"),
    "Share and process": ("service", "topic", "clone", "placement"),
    "Measure and plan": ("report", "lake", "plan", "lab"),
    "This program": ("completion",),
}


# A master has both; a command takes the address of one.
SOCKETS = {"--master": "--operator", "--operator": "--master"}


def run(arguments: Sequence[str]) -> int:
    """Run the command line; the exit status."""
    if instruction := os.environ.get(completion.VARIABLE):
        return completion.answer(fleet, instruction)
    try:
        with fleet.make_context("fleet", list(arguments)) as context:
            return int(fleet.invoke(context) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return exits.USAGE
    except click.ClickException as error:
        where = getattr(error, "ctx", None)
        command = where.command_path if where else _named(arguments)
        text = error.format_message().rstrip(".")
        if isinstance(error, click.NoSuchOption) and where is not None:
            text = _other_socket(error.option_name, where.command) or text
        see = " See" if text.endswith("?") else "; see"
        return exits.fail(f"{text}{see} {command} --help", exits.USAGE)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except exits.CommandError as error:
        return exits.fail(str(error), error.status)
    except ValueError as error:
        from agent.wire.config import ConfigError  # only an error needs it

        if not isinstance(error, ConfigError):
            raise
        return exits.fail(str(error), exits.USAGE)
    except click.Abort:
        return exits.fail("interrupted", exits.INTERRUPTED)


def _other_socket(option: str, command: click.Command) -> str:
    """What is wrong where an option names the wrong one of a master's sockets; else empty."""
    other = SOCKETS.get(option, "")
    takes = any(other in parameter.opts for parameter in command.params)
    return f"No such option {option!r}. Did you mean {other!r}?" if takes else ""


def _named(arguments: Sequence[str]) -> str:
    """The command of these arguments: click does not say where an option lacks its value."""
    path = ["fleet"]
    command: click.Command = fleet
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        if not word.startswith("-"):
            if word not in command.commands:
                break
            path.append(word)
            command = command.commands[word]
    return " ".join(path)


def _verbose(_context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        import logging

        from fleet.common import crash_reports

        crash_reports.raised = True
        ssh = logging.getLogger("paramiko")
        ssh.addHandler(logging.StreamHandler())
        ssh.setLevel(logging.INFO)


@click.group(cls=Grouped, headings=HEADINGS, context_settings={"max_content_width": 100})
@click.version_option(package_name="sanderling", prog_name="fleet", message="%(prog)s %(version)s")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_verbose,
    help="Follow SSH on stderr, and show the traceback of an unexpected error.",
)
def fleet() -> None:
    """Sensing queries with deadlines on fleets of Raspberry Pis.

    Exit status: 0 done, 1 failed or partial, 2 wrong usage, 3 refused, 4 no reply,
    5 nothing done, 130 interrupted.
    """


@fleet.command()
@connecting("master", several=True)
@areas_to("query")
@last("10m")
@ENDED
@OBJECTIVE
@CHANNELS
@SERIES
@click.option(
    "--buckets",
    type=click.IntRange(1, 2_000),
    metavar="N",
    help="In place of readings: minimum, mean and maximum of about N parts of the window, which "
    "begin at multiples of their length.",
)
@answer_timeout("")
@SERVICE
@click.option(
    "--from-clone",
    is_flag=True,
    help="Where an area gives no live answer, show the last values that its clone knows.",
)
@click.option(
    "--explain", is_flag=True, help="Show the task of each IAD, too: its budget, areas and time."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as the wire's JSON.")
def query(
    master: str,
    areas: tuple[str, ...],
    last_s: float,
    ago_s: float,
    slo: Any,
    channels: tuple[str, ...],
    series: bool,
    buckets: int | None,
    timeout_ms: float | None,
    service_id: str,
    from_clone: bool,
    explain: bool,
    as_json: bool,
    keys: KeyFiles | list[KeyFiles] | None,
) -> int:
    """Query areas for their readings and print the answer.

    Exit status: 0 complete, also over its SLO; 1 partial, or no readings in the window; 2 wrong
    usage, or an area or channel that nobody knows; 3 refused; 4 no reply.
    """
    from agent.wire.messages import Window
    from fleet.query import query as command

    if buckets is not None and from_clone:
        raise click.UsageError("a clone keeps no buckets: give either --buckets or --from-clone")
    form: QueryForm = "series" if series else "aggregate"
    if buckets is not None:
        form = "buckets"
    return command.run(
        master,
        areas,
        Window(last_s=last_s, ago_s=ago_s),
        slo,
        channels=channels,
        form=form,
        timeout_ms=timeout_ms,
        service=service_id,
        from_clone=from_clone,
        explain=explain,
        buckets=buckets,
        as_json=as_json,
        keys=keys,
    )


@fleet.command(short_help="Start a building of 32 nodes here, and show what it can do.")
@click.option(
    "--keep/--no-keep",
    default=None,
    help="Leave the building up until Ctrl-C; by default on a terminal.",
)
@click.option("--verbose", is_flag=True, help="Show every step in detail.")
@click.option(
    "--seconds",
    type=Number(0, 3_600, min_open=True),
    default=30.0,
    show_default=True,
    help="Length of the run under each policy.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=Number(0, 1_000, min_open=True),
    default=15.6,
    show_default=True,
    help="λ: queries per second, all query schedulers together.",
)
@SEED
@click.option(
    "--virtual",
    "virtual_queries",
    type=click.IntRange(1, 10_000_000),
    default=30_000,
    show_default=True,
    help="Queries in virtual time, under each policy.",
)
@run_directory("var/demo")
def demo(
    keep: bool | None,
    verbose: bool,
    seconds: float,
    rate_per_s: float,
    seed: int,
    virtual_queries: int,
    directory: Path,
) -> int:
    """Start a building of 32 edge nodes on this machine, and show what it can do.

    A live page shows its rooms from the start. Details go to details.txt of --directory.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    from fleet.demo import demo as command
    from fleet.demo.options import Options

    if keep is None:
        keep = sys.stdin.isatty() and sys.stdout.isatty()
    options = Options(directory, seconds, rate_per_s, seed, virtual_queries, keep, verbose)
    return command.run(options)


@fleet.command(name="completion", short_help="Print a shell's completion of commands and names.")
@click.argument("shell", type=click.Choice(completion.SHELLS))
def completion_(shell: str) -> int:
    """Print the script by which a shell completes commands, options and the fleet's names.

    bash: eval "$(fleet completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc;
    fish: fleet completion fish > ~/.config/fish/completions/fleet.fish
    """
    click.echo(completion.script(fleet, shell))
    return exits.DONE


fleet.add_command(areas)
fleet.add_command(channels)
fleet.add_command(services)
fleet.add_command(up)
fleet.add_command(down)
fleet.add_command(init)
fleet.add_command(inventory)
fleet.add_command(image)
fleet.add_command(release)
fleet.add_command(releases)
fleet.add_command(service)
fleet.add_command(lab)
fleet.add_command(keys)
fleet.add_command(plan)
fleet.add_command(placement)
placement.add_command(measure)
placement.add_command(train)
placement.add_command(follow)
fleet.add_command(export)
fleet.add_command(watch)
fleet.add_command(subscribe)
fleet.add_command(clone)
fleet.add_command(gateway)
fleet.add_command(topic)
fleet.add_command(deploy)
fleet.add_command(rollback)
fleet.add_command(replace)
fleet.add_command(status)
fleet.add_command(discover)
fleet.add_command(exec_)
fleet.add_command(doctor)
fleet.add_command(logs)
fleet.add_command(lake)
fleet.add_command(report)
fleet.add_command(reboot)
