"""The command line of every agent:
``--config FILE [--check [--leave-sensors]] [--background] [--exit-on-stdin-eof]``.

An unusable option or file is reported in one line on standard error, beginning with ``error:``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, NamedTuple, NoReturn, TypeVar

from agent.runtime.release import release
from agent.wire.config import ConfigError, load

C = TypeVar("C")

FAILED: Final = 1  # exit status: the agent cannot start now
WIDTH: Final = 80  # columns of a terminal
UNUSABLE: Final = 2  # exit status: the command line or the configuration must be changed
FLAGS: Final = (
    "--check", "--leave-sensors", "--background", "--exit-on-stdin-eof", "--version", "--help"
)  # fmt: skip
# The agents that have an option; one without it takes it as well, as a deployment gives them all
# the same.
READERS: Final = ("sanderling-edge", "sanderling-probe")
PROBE: Final = "sanderling-probe"
PURPOSES: Final = {
    "sanderling-drs": "The registration service of a market, as leader or read replica.",
    "sanderling-edge": "The agent on a Pi: reads its sensors, and keeps and serves the readings.",
    "sanderling-gateway": "The live page, HTTP, MQTT and further outputs of a fleet.",
    "sanderling-master": "The agent of a domain: takes queries, and has its nodes answer in time.",
    "sanderling-probe": "Reads a node's sensors as its agent would, and prints the readings.",
}
HELP: Final = """
  --config FILE         TOML file; relative paths in it begin at its folder
  --check               only check the file, and say so
{leave_sensors}{background}\
  --exit-on-stdin-eof   stop when standard input closes, so that it does not
                        outlive its starter
  --version             the release that is installed
"""
LEAVE_SENSORS: Final = """\
  --leave-sensors       with --check: no sensor is touched, as an agent may be
                        reading it
"""
BACKGROUND: Final = """\
  --background          return as soon as the agent serves, and let it go on
"""


class Options(NamedTuple):
    """Parsed options; `config` is the path of the configuration file."""

    config: str
    check: bool
    exit_on_stdin_eof: bool
    leave_sensors: bool = False
    background: bool = False


def fail(line: str, status: int) -> NoReturn:
    """End the process with a one-line error."""
    sys.stderr.write(f"error: {' '.join(line.split())}\n")
    sys.exit(status)


def options(program: str, arguments: Iterable[str]) -> Options:
    """Parse `arguments`; ends the process for ``--help``, ``--version`` and invalid options."""
    # Parsed by hand: argparse would take 1.2 MiB of an edge node's memory, getopt 0.25 MiB.
    usage = f"usage: {program} {' '.join(_usage(program))}"
    config = None
    flags = set()
    left = iter(arguments)
    for argument in left:
        name, equals, value = argument.partition("=")
        if name == "--config":
            config = value if equals else next(left, None)
            if config is None:
                fail(f"option --config requires argument; {usage}", UNUSABLE)
        elif name in FLAGS:
            if equals:
                fail(f"option {name} must not have an argument; {usage}", UNUSABLE)
            flags.add(name)
        elif name.startswith("-"):
            fail(f"option {name} not recognized; {usage}", UNUSABLE)
        else:
            fail(f"{argument} is too much; {usage}", UNUSABLE)
    if "--help" in flags:
        sys.stdout.write(_help(program))
        sys.exit(0)
    if "--version" in flags:
        from importlib.metadata import version

        sys.stdout.write(f"{program} {release() or version('sanderling')}\n")
        sys.exit(0)
    if config is None:
        fail(f"--config is missing; {usage}", UNUSABLE)
    if "--leave-sensors" in flags and "--check" not in flags:
        fail(f"--leave-sensors goes with --check; {usage}", UNUSABLE)
    return Options(
        config,
        "--check" in flags,
        "--exit-on-stdin-eof" in flags,
        "--leave-sensors" in flags,
        "--background" in flags and "--check" not in flags,
    )


def _usage(program: str) -> list[str]:
    """The options that mean something to it."""
    check = "[--check [--leave-sensors]]" if program in READERS else "[--check]"
    background = [] if program == PROBE else ["[--background]"]
    return ["--config FILE", check, *background, "[--exit-on-stdin-eof]"]


def _help(program: str) -> str:
    lines = [f"usage: {program}"]
    for word in _usage(program):
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(" " * len(f"usage: {program}"))
        lines[-1] += f" {word}"
    more = HELP.format(
        leave_sensors=LEAVE_SENSORS if program in READERS else "",
        background=BACKGROUND if program != PROBE else "",
    )
    usage = "\n".join(lines)
    return f"{usage}\n\n{PURPOSES[program]}\n{more}"


def configuration(path: str, kind: type[C]) -> C:
    """Load the configuration file; ends the process if it is invalid."""
    try:
        return load(path, kind)
    except ConfigError as error:
        fail(str(error), UNUSABLE)


def say_ok(path: str) -> None:
    """Print ``--check``'s message for a valid file."""
    sys.stdout.write(f"{path}: ok\n")
